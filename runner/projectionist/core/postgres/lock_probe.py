"""Whether locks exclude here, by trying: engines that speak PostgreSQL's language have granted them to everybody."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.connections import DatabaseUnreachableError, advisory_key, connect
from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Postgres

log = logging.getLogger("projectionist.core")

WITHIN_S = 3.0
"""How long a second session is waited for: a full pool has none to spare."""


class LockShared(ProjectionistError):
    """The lock that keeps batches and swaps apart keeps nobody out on this server."""


async def refuse_weak_locks(connection: Connection, postgres: Postgres) -> None:
    """Raise LockShared where a lock that `connection` has is granted to a second session, or outlives its end.

    Where no second session can be had now, nothing is learned, and nothing refused.
    """
    try:
        # Through the pooler, where there is one: a lock that is not seen there is one of another database.
        other = await connect(
            postgres, application_name="projectionist lock probe", within_s=WITHIN_S, pooled=True
        )
    except DatabaseUnreachableError as error:
        log.debug("whether locks hold was not tried: %s", error)
        return
    sql = Statements("projectionist.core", postgres.schema)
    try:
        problem = await _problem(connection, other, sql, advisory_key(postgres.schema, f"probe:{uuid4()}"))
        if problem:
            engine = await connection.fetchval(sql["select_engine"])
            raise LockShared(
                f"the server at {postgres.url} cannot be relied on: {problem} ({engine})",
                remedy="Point postgres.url to PostgreSQL itself, postgres.direct_url to the same database; with such"
                " locks two processes would apply one event",
            )
    finally:
        other.terminate()


async def _problem(first: Connection, second: Connection, sql: Statements, key: int) -> str:
    """Return what is wrong with the lock `key`, tried by two sessions; empty if it holds."""
    try:
        async with first.transaction():
            await first.execute(sql["lock_probe"], key)
            async with second.transaction():
                if await second.fetchval(sql["try_lock_probe"], key):
                    return "a lock that one session holds is granted to another"
        async with second.transaction():
            if not await second.fetchval(sql["try_lock_probe"], key):
                return "a lock stays when the transaction that took it has ended"
    except (asyncpg.UndefinedFunctionError, asyncpg.FeatureNotSupportedError) as error:
        return f"it has no locks by number: {error}"
    return ""
