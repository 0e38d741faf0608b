"""Where every consumer stands, read from the database alone; runners write what they know of the broker there."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row


MOST = 200_000
"""So many rows of one kind are counted at most; what reaches it is so many or more."""


class RunnerStatus(msgspec.Struct, frozen=True):
    """A process that runs a consumer."""

    host: str
    pid: int
    state: str
    silent_s: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    lag: int | None = None
    unacked: int | None = None
    headers: dict[str, str] | None = None
    """The header that it reads each part of the envelope from."""


class BreakerStatus(msgspec.Struct, frozen=True):
    """A breaker that is not closed."""

    state: str
    reason: str
    until_s: float
    """Seconds until some keys are tried; while they are (`half_open`), until another process may try some."""


class PauseStatus(msgspec.Struct, frozen=True):
    """Names who has paused a consumer."""

    who: str
    reason: str
    since: datetime


class ViewStatus(msgspec.Struct, frozen=True):
    """Says where one view of a set stands."""

    name: str
    kind: str
    state: str
    """`joining`, `live`, `detached` or `retired`: batches write live ones alone."""
    generation: int
    revision: int
    effects_mark: int | None

    @property
    def next_step(self) -> str | None:
        """Return what becomes of a view that is to join, as long as its class lists it; None for another."""
        if self.state != "joining":
            return None
        return (
            "is not there yet: processes that run and list it build it, and it joins. Where none does, "
            f"`projectionist rebuild APP {self.name}`"
        )


class ConsumerStatus(msgspec.Struct, frozen=True):
    """Says where one consumer stands."""

    name: str
    kind: str
    stream: str
    paused: bool
    generation: int | None
    """Of a set each view has its own."""
    revision: int | None
    effects_mark: int | None
    outcomes: dict[str, int]
    """How often each outcome was reached, over all processes and times."""
    heads: dict[str, int]
    """Aggregates whose head is not clear, by its state; without order events."""
    parked: int
    oldest_s: float | None
    quarantined: int
    incidents: int
    runners: list[RunnerStatus]
    backlog: int = 0
    """Events that are safe in the inbox and not applied yet."""
    rate: float | None = None
    """Events applied a second, within a minute; None: nothing was settled in it."""
    breaker: BreakerStatus | None = None
    pause: PauseStatus | None = None
    views: list[ViewStatus] = []
    """Of a set, in the order of their locks."""

    @property
    def lag(self) -> int | None:
        """Return messages the broker still holds for the consumer; None when no process tells."""
        return max((r.lag for r in self.runners if r.lag is not None), default=None)


class Counted(msgspec.Struct, frozen=True):
    """One number of the breakdown by event type, hour or minute."""

    name: str
    what: str
    outcome: str
    n: int


async def consumers(connection: Connection, schema: str, *, outcomes: bool = True) -> list[ConsumerStatus]:
    """Return every registered consumer, by name; `outcomes`: add its counters up, of which there may be many."""
    rows = await connection.fetch(Statements("projectionist.runner", schema)["select_status"], outcomes)
    return [msgspec.convert(_decoded(dict(row)), ConsumerStatus) for row in rows]


class SetbackStatus(msgspec.Struct, frozen=True):
    """Says what a living process cannot do at the moment; without a chore the consumer itself does not run."""

    consumer: str
    """Its name, registered or not; empty where all of the process is meant."""
    what: str
    """The chore that fails again and again, or empty."""
    state: str
    """`ended` for good in that process, `retried` after an error, `failing` (a chore), or `waits` by itself."""
    host: str
    pid: int
    reason: str
    remedy: str
    since: datetime

    @property
    def needs_somebody(self) -> bool:
        """Return whether it is more than waiting for what is away."""
        return self.state != "waits"

    @property
    def about(self) -> str:
        """Return what does not go, and where since when."""
        what = {
            "ended": "has ended",
            "retried": "does not run and is tried again",
            "waits": "waits",
            "failing": f"fails again and again at {self.what}",
        }[self.state]
        return f"{what} in process {self.pid} on {self.host} since {self.since.isoformat(timespec='seconds')}"


async def setbacks(connection: Connection, schema: str) -> list[SetbackStatus]:
    """Return what processes cannot do at the moment, by consumer."""
    rows = await connection.fetch(Statements("projectionist.runner", schema)["select_process_problems"])
    return [msgspec.convert(dict(row), SetbackStatus) for row in rows]


class Shared(msgspec.Struct, frozen=True):
    """Counts what waits for a person and is the same for some consumers."""

    what: str
    """`quarantine` or `incidents`."""
    consumers: list[str]
    n: int


async def shared(connection: Connection, schema: str) -> list[Shared]:
    """Return events in quarantine and open incidents, by whom they concern."""
    rows = await connection.fetch(Statements("projectionist.runner", schema)["select_shared_trouble"])
    return [Shared(*row) for row in rows]


class Minutes(msgspec.Struct, frozen=True):
    """Counts what a consumer has done in each of the last sixty whole minutes, the oldest first."""

    name: str
    applied: list[int]
    failed: list[int]


async def minutes(connection: Connection, schema: str, consumer: str | None = None) -> dict[str, Minutes]:
    """Return the last hour of each consumer that has settled something in it, or of one, by name."""
    rows = await connection.fetch(Statements("projectionist.runner", schema)["select_minutes"], consumer)
    return {row["name"]: _hour_of(row) for row in rows}


def _hour_of(row: Row) -> Minutes:
    """Add up by minute what each process has done in it. Pure."""
    applied, failed = [0] * 60, [0] * 60
    for place, done, tried in zip(row["places"], row["applied"], row["failed"], strict=True):
        at = (
            place - row["place"]
        ) % 60  # the minute that goes on was left out: its place is the oldest one's
        applied[at] += done
        failed[at] += tried
    return Minutes(row["name"], applied, failed)


async def breakdown(
    connection: Connection, schema: str, by: str, consumer: str | None = None
) -> list[Counted]:
    """Return counters of every consumer, or of one, `by` "type", "hour" or "minute"."""
    sql = Statements("projectionist.runner", schema)
    return [Counted(*row) for row in await connection.fetch(sql[f"select_counts_by_{by}"], consumer)]


def _decoded(row: dict[str, object]) -> dict[str, object]:
    for name in ("outcomes", "heads", "runners", "breaker", "pause", "views"):
        row[name] = None if row[name] is None else msgspec.json.decode(str(row[name]))
    return row
