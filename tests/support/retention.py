"""The purge as tests call it, and time that has passed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.support.consumer_harness import ConsumerHarness

from projectionist.core.postgres.connections import Connection
from projectionist.core.settings.settings import Policy
from projectionist.projections import definition
from projectionist.runner.retention.background_purge import streams
from projectionist.runner.retention.purge import Purger, PurgeReport

DAY = 86_400.0

_AGED = {
    "inbox": ("processed", "received"),
    "duplicates": ("received",),
    "intents": ("created", "first_started", "settled"),
    "cancels": ("done",),
    "audit": ("at",),
    "quarantine": ("received",),
    "decisions": ("at",),
    "archive": ("at",),
    "generations": ("created",),
    "builds": ("started",),
    "operations": ("ended",),
}


async def age(harness: ConsumerHarness, days: float) -> None:
    """Have everything in the tables be so many days older than it is."""
    await harness.pool.execute("alter table projectionist.audit disable trigger keep_acts")
    for table, columns in _AGED.items():
        changed = ", ".join(f"{name} = {name} - $1::float8 * interval '1 day'" for name in columns)
        await harness.pool.execute(f"update projectionist.{table} set {changed}", days)
    await harness.pool.execute("alter table projectionist.audit enable trigger keep_acts")


async def forgets_after(harness: ConsumerHarness, days: float) -> None:
    """Have the stream keep a message for so many days."""
    await harness.nats.jetstream().update_stream(
        name=harness.stream.name, subjects=[harness.stream.subjects], max_age=days * DAY
    )


async def sent(harness: ConsumerHarness) -> None:
    """Have a relay, or so it seems, have carried out all intents."""
    await harness.fetch("select from {s}.intents limit 0")  # which unpacks staged intents
    await harness.pool.execute(
        "update projectionist.intents set state = 'sent', settled = clock_timestamp() where state = 'open'"
    )
    await harness.pool.execute("delete from projectionist.outbox")


async def purge(
    harness: ConsumerHarness,
    *classes: type,
    dry_run: bool = False,
    policy: Policy | None = None,
    **retention: Any,
) -> PurgeReport:
    """Purge for these consumers, by the harness's settings but for the retention given."""
    settings = msgspec.structs.replace(
        harness.settings,
        retention=msgspec.structs.replace(harness.settings.retention, **retention),
        consumer_defaults=policy or harness.settings.consumer_defaults,
    )

    @asynccontextmanager
    async def lend() -> AsyncIterator[Connection]:
        async with harness.pool.acquire() as connection:
            yield connection

    names = [definition(cls).name for cls in classes]
    return await Purger(lend, settings, names, streams(harness.nats), rest=0).run(dry_run=dry_run)


def went(report: PurgeReport) -> dict[str, int]:
    """Return how many rows went, by table."""
    counted: dict[str, int] = {}
    for one in report.went:
        counted[one.table] = counted.get(one.table, 0) + one.rows
    return counted
