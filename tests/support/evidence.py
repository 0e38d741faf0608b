"""What tests of failing events share: waits through trouble of the server."""

from __future__ import annotations

import asyncpg
from tests.support.consumer_harness import ConsumerHarness
from tests.support.waiting import eventually

from projectionist.core.errors import ProjectionistError
from projectionist.core.operator import Act
from projectionist.core.retry_policy import RetryPolicy

ACT = Act("ann", "the row is free again")


async def comes(harness: ConsumerHarness, sql: str, wanted: object) -> None:
    """Wait for the value of a query, through crashes of the server that is asked."""

    async def there() -> bool:
        try:
            found = await harness.value(sql)
        except (OSError, ProjectionistError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        assert found == wanted, f"{sql} says {found!r}, not {wanted!r}"
        return True

    await eventually(there)


def retrying(attempts: int) -> RetryPolicy:
    """A schedule that begins at once."""
    return RetryPolicy(initial_s=0.01, maximum_s=0.05, attempts=attempts)
