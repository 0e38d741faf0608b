"""What a project runs on, where all of it stands, and what waits for a person: read at once, for whoever shows it."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.ops.cli.output import names_in_short
from projectionist.outbox.admin.status import OutboxProblem, OutboxStatus
from projectionist.runner.consumers.header_mapping import disagreement, unified
from projectionist.runner.consumers.status import (
    ConsumerStatus,
    Counted,
    PauseStatus,
    RunnerStatus,
    SetbackStatus,
    Shared,
)
from projectionist.runner.operations.operation import OperationReport, why_abandoned

if TYPE_CHECKING:
    import asyncpg

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Nats, Settings

SILENT_S = 20.0
"""A process that has not told its heartbeat for so long is not counted as running."""


class PartStatus(msgspec.Struct, frozen=True):
    """One thing this project runs on; `problem` is empty where all is well."""

    name: str
    shown: str
    problem: str = ""


class Status(msgspec.Struct, frozen=True):
    """All of them."""

    version: str
    python: str
    parts: list[PartStatus]
    consumers: list[ConsumerStatus] = []
    counted: list[Counted] = []
    setbacks: list[SetbackStatus] = []
    outbox: OutboxStatus = OutboxStatus()
    shared: list[Shared] = []
    """What waits in quarantine or as an incident, once for all consumers that it concerns."""
    operations: list[OperationReport] = []
    """Those that have not ended."""

    @property
    def troubles(self) -> list[OutboxProblem]:
        """Yield what waits for a person, or has no relay to carry it out, beside the parts and the setbacks."""
        waited = {one.consumer for one in self.setbacks if not one.needs_somebody}
        own = (step for one in self.consumers for step in next_steps(one, waits=one.name in waited))
        abandoned = [
            OutboxProblem(f"operation {one.number}", *why_abandoned(one))
            for one in self.operations
            if one.is_abandoned
        ]
        return [*own, *map(shared_step, self.shared), *abandoned, *self.outbox.troubles]

    @property
    def well(self) -> bool:
        """Return whether nothing needs attention."""
        return not (
            any(part.problem for part in self.parts)
            or self.troubles
            or any(one.needs_somebody for one in self.setbacks)
        )


async def look(settings: Settings, by: str | None = None) -> Status:
    """Ask both servers at once; what does not answer is a part with a problem."""
    status, broker = await asyncio.gather(of_database(settings, by), of_broker(settings.nats))
    return msgspec.structs.replace(status, parts=[*status.parts, broker])


def next_steps(one: ConsumerStatus, *, waits: bool = False) -> Iterator[OutboxProblem]:
    """Yield what of a consumer waits for a person, and where to look at it; `waits`: a process says why it waits."""
    waiting = one.heads.get("waiting", 0)
    if waiting:
        remedy = f"`projectionist parked list --consumer {one.name}`"
        yield OutboxProblem(one.name, f"{waiting:,} waiting for new code or a person", remedy)
    if one.breaker is not None:
        text = f"the breaker is {one.breaker.state.replace('_', ' ')}: {one.breaker.reason}"
        remedy = f"`projectionist breaker reset {one.name} --reason …`"
        yield OutboxProblem(one.name, text, f"It closes when some keys go through, or by {remedy}")
    for view in one.views:
        if view.state == "detached":
            name = f"{one.name}.{view.name}"
            remedy = f"`projectionist views attach {name} --reason …`, when it may join again"
            yield OutboxProblem(name, "is left out by batches: its rows stay as they are", remedy)
    read = [(f"{each.host}:{each.pid}", each.headers or {}) for each in alive(one)]
    if difference := disagreement(read):
        yield OutboxProblem(one.name, difference, unified(one.name))
    if one.paused:
        yield OutboxProblem(one.name, _paused(one.pause), f"`projectionist resume {one.name} --reason …`")
    elif one.breaker is None and not alive(one):
        text, remedy = ("no process runs it", "`projectionist run`")
        if waits:
            text, remedy = "a process is there to run it, and waits", "What for is said below"
        yield OutboxProblem(one.name, text, remedy)


def shared_step(one: Shared) -> OutboxProblem:
    """Say what is the same for some consumers, and where to look at it."""
    text = (
        f"{one.n} in quarantine"
        if one.what == "quarantine"
        else f"{one.n} incident{'s' if one.n != 1 else ''} open"
    )
    only = f" --consumer {one.consumers[0]}" if len(one.consumers) == 1 else ""
    return OutboxProblem(names_in_short(one.consumers), text, f"`projectionist {one.what} list{only}`")


def _paused(pause: PauseStatus | None) -> str:
    """Say who has paused it, when and why."""
    if pause is None:
        return "paused"
    return f"paused by {pause.who} at {pause.since.isoformat(timespec='seconds')}: {pause.reason}"


def alive(one: ConsumerStatus) -> list[RunnerStatus]:
    """Return the processes that run it and have beaten lately."""
    return [runner for runner in one.runners if runner.silent_s < SILENT_S]


async def of_database(settings: Settings, by: str | None = None) -> Status:
    """Ask PostgreSQL; where it does not answer, it is a part with a problem."""
    from projectionist.core.postgres.connections import connect

    try:
        connection = await connect(settings.postgres, application_name="projectionist status")
    except ProjectionistError as problem:
        return nothing_of(str(problem))
    try:
        return await of_connection(connection, settings, by)
    finally:
        await connection.close()


def nothing_of(problem: str) -> Status:
    """Return what is known of a database that cannot be asked. Pure."""
    return _status(PartStatus("postgres", "", problem))


async def of_connection(
    connection: asyncpg.Connection[asyncpg.Record],
    settings: Settings,
    by: str | None = None,
    *,
    parts: Sequence[PartStatus] = (),
    outcomes: bool = True,
) -> Status:
    """Ask over a connection; a database that is not this release's is a part with a problem.

    `parts`: those that were seen lately, which are not asked about again; without them all is one statement.
    `outcomes`: add counters up, of which there may be very many.
    """
    found = list(parts)
    if not found:
        version_at = f"{connection.get_settings().server_version} at {settings.postgres.url}"
        found = [PartStatus("postgres", version_at)]
        try:
            found += await _asked(connection, settings)
        except ProjectionistError as problem:
            found.append(PartStatus("migrations", "", str(problem)))
    if any(part.problem for part in found):
        return _status(*found)
    return await _looked(connection, settings.postgres.schema, by, _status(*found), outcomes=outcomes)


def _status(*parts: PartStatus) -> Status:
    return Status(version=version("projectionist"), python=platform.python_version(), parts=list(parts))


async def _asked(connection: Connection, settings: Settings) -> list[PartStatus]:
    """Return what the database is: its tables, and whether anybody observes."""
    from projectionist.migrations import plan

    schema = settings.postgres.schema
    tables = _tables(schema, [migration.name for migration in await plan(connection, schema)])
    return [tables] if tables.problem else [tables, *await _observer(connection, settings)]


async def _looked(
    connection: Connection, schema: str, by: str | None, seen: Status, *, outcomes: bool
) -> Status:
    from projectionist.core.postgres.statements import Statements
    from projectionist.outbox.admin import status as outbox_status
    from projectionist.runner.consumers import status
    from projectionist.runner.operations.operation import CARRIED_S
    from projectionist.runner.operations.operation_store import report_of

    sql = Statements("projectionist.ops", schema)["select_project_state"]
    row = await connection.fetchrow(sql, outcomes, outbox_status.MOST, CARRIED_S)
    assert row is not None, "it always answers"
    decode = msgspec.json.decode
    return msgspec.structs.replace(
        seen,
        consumers=decode(row["consumers"], type=list[ConsumerStatus]),
        counted=await status.breakdown(connection, schema, by) if by else [],
        setbacks=decode(row["setbacks"], type=list[SetbackStatus]),
        outbox=outbox_status.state_of(
            decode(row["relays"], type=list[outbox_status.RelayStatus]),
            *(decode(row[name]) for name in ("unsettled", "circuits", "scheduled")),
        ),
        shared=decode(row["shared"], type=list[Shared]),
        operations=list(map(report_of, decode(row["operations"]))),
    )


def _tables(schema: str, pending: list[str]) -> PartStatus:
    if not pending:
        return PartStatus("migrations", f"schema {schema} is up to date")
    problem = f"{', '.join(pending)} pending in schema {schema}. Run `projectionist migrate`"
    return PartStatus("migrations", "", problem)


async def _observer(connection: Connection, settings: Settings) -> list[PartStatus]:
    """Return the line about a missing observer, where metrics go somewhere; the doctor says what to do about it."""
    from projectionist.ops.doctor import observer

    if settings.telemetry.metrics == "none":
        return []
    found = await observer.look(connection, settings, SILENT_S)
    runs = found is observer.Observed.RUNS
    return [PartStatus("observer", "connected" if runs else "none: alerts about lag and intents cannot fire")]


async def of_broker(nats: Nats) -> PartStatus:
    """Ask NATS."""
    from projectionist.core.nats.connections import connect

    try:
        client = await connect(nats, name="projectionist status", within_s=3)
    except ProjectionistError as problem:
        return PartStatus("nats", "", str(problem))
    server = client.connected_server_version
    await client.close()
    return PartStatus(
        "nats", f"{server.major}.{server.minor}.{server.patch} at {', '.join(map(str, nats.url))}"
    )
