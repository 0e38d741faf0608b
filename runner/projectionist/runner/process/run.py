"""`run`: the consumers of an app in one process, until a signal asks it to stop."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio

from projectionist.core.errors import SettingsError
from projectionist.core.gate import nats_reach, postgres_reach
from projectionist.core.nats import connections
from projectionist.core.postgres import connections as db
from projectionist.core.postgres.connections import DatabaseUnreachableError
from projectionist.core.stopping import Stop
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.telemetry import instruments, metrics
from projectionist.core.testpoints import announce
from projectionist.outbox.relay.notify import Notifier
from projectionist.runner.consumers.registry import INSTANCE
from projectionist.runner.database.chores import kept
from projectionist.runner.database.dead_sessions import POOL
from projectionist.runner.process.consumer_worker import ConsumerWorker
from projectionist.runner.process.database_access import DatabaseAccess
from projectionist.runner.process.heartbeat import SWEEPING
from projectionist.runner.process.problem_board import ProblemBoard, failing, problem_of
from projectionist.runner.process.supervisor import Supervised, supervise
from projectionist.runner.process.watchdog import watch
from projectionist.runner.retention.background_purge import BackgroundPurger

if TYPE_CHECKING:
    import asyncpg
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.core.telemetry.health_server import Health
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.process.problem_board import ProcessProblem

log = logging.getLogger("projectionist.runner")

MOST_CONNECTIONS = 4
"""For registrations, floors and heartbeats, which one is left for; every consumer has more for its batches."""


async def run(
    definitions: Sequence[ConsumerDefinition],
    settings: Settings,
    *,
    allow_older_code: bool = False,
    prepared: Callable[[Connection], Awaitable[None]] | None = None,
    health: Health | None = None,
    signals: bool = True,
) -> None:
    """Run these consumers; returns after SIGTERM or SIGINT, when what had begun is settled or the deadline is over.

    With `signals=False` it is part of another program: it listens to no signal, ends no process that hangs, stops in
    the same way when it is cancelled, and raises CannotGoOn for the first consumer that cannot go on.

    A server that cannot be reached is waited for, at the start too. A consumer that fails leaves the others at their
    work and is tried again; one that newer code has taken over ends alone. Raises what no waiting mends: settings that
    cannot work, credentials that are refused, and what ended the consumers once none of them is left. `prepared`
    looks at the database before anything is run on it, and raises if it does not fit. `health` is told when it has
    begun.
    """
    refuse_unmonitored(definitions, settings)
    crew: list[Supervised] = []
    stop = Stop(partial(_stop, crew), _late, settings.run.shutdown_s)
    with unwrap_single_exception():
        async with stop.heard(signals=signals, begun=partial(announce, "run.started")) as tasks:
            if signals:
                tasks.start_soon(watch, settings.run.watchdog_timeout_s)
            async with _pool(settings) as pool, _client(settings) as client:
                if prepared is not None:
                    async with pool.acquire() as connection:
                        await prepared(connection)
                heartbeat_s, schema = settings.run.heartbeat_s, settings.postgres.schema
                waker = Notifier(settings.postgres)
                access = DatabaseAccess(
                    pool,
                    schema,
                    allow_older_code=allow_older_code,
                    heartbeat_s=heartbeat_s,
                    wake=waker.wake,
                    lends_sessions=settings.postgres.direct_url is not None,
                )
                tasks.start_soon(kept, "waking relays", waker.run, access.book)
                if health is not None:
                    health.troubles = partial(_troubles, client, access, crew)
                    health.superseded = lambda: [why for one in crew if (why := one.superseded) is not None]
                    health.started = True
                metrics.ask(instruments.REACHABLE, partial(_reachable, client, access))
                patience_s = None if signals else settings.run.shutdown_s
                await _together(definitions, settings, client, access, crew, patience_s)
    announce("run.stopped")


async def _together(
    definitions: Sequence[ConsumerDefinition],
    settings: Settings,
    client: Client,
    access: DatabaseAccess,
    crew: list[Supervised],
    patience_s: float | None,
) -> None:
    crew += [Supervised(ConsumerWorker(definition, settings, client, access)) for definition in definitions]
    janitor = BackgroundPurger(access, settings, client, [definition.name for definition in definitions])
    board = ProblemBoard(access, settings.postgres.schema, partial(_setbacks, access, crew))
    async with anyio.create_task_group() as beside:
        beside.start_soon(board.run)
        beside.start_soon(kept, "retention", janitor.run, access.book)
        await supervise(crew, patience_s=patience_s)
        beside.cancel_scope.cancel()


def _troubles(client: Client, access: DatabaseAccess, crew: Sequence[Supervised]) -> list[str]:
    """Return why no data flows: servers that are away, and what each consumer that is not served waits for.

    Nothing, where newer code has taken over every one of them: what still closes is no trouble.
    """
    if crew and all(one.ended is not None for one in crew):
        return []
    away = [] if client.is_connected else ["NATS cannot be reached"]
    away += ["PostgreSQL cannot be used"] if access.gates.closed else []
    return away + [one.trouble for one in crew if one.trouble is not None]


def _reachable(client: Client, access: DatabaseAccess) -> metrics.Shown:
    return metrics.reachable(postgresql=not access.gates.closed, nats=client.is_connected)


def _setbacks(access: DatabaseAccess, crew: Sequence[Supervised]) -> list[ProcessProblem]:
    """Return what this process cannot do, for whoever asks the database."""
    owners = [problem_of(name, "failing", error, SWEEPING) for name, error in access.waits_for_owner.items()]
    joins = [
        problem_of(consumer, "failing", error, f"joining of {names}")
        for (consumer, names), error in access.not_joined.items()
    ]
    return [*(one.setback for one in crew if one.setback is not None), *failing(access.book), *owners, *joins]


@asynccontextmanager
async def _pool(settings: Settings) -> AsyncIterator[asyncpg.Pool[asyncpg.Record]]:
    metrics.show(instruments.REACHABLE, metrics.reachable(postgresql=False))
    reach = postgres_reach()
    name = f"{POOL} {INSTANCE}"  # by which others know what a process that has fallen silent holds
    open_pool = partial(db.pool, settings.postgres, application_name=name, most=MOST_CONNECTIONS)
    pool = await reach.until(open_pool, lambda error: isinstance(error, DatabaseUnreachableError))
    try:
        yield pool
    finally:
        with anyio.move_on_after(2, shield=True):
            await pool.close()
        pool.terminate()


@asynccontextmanager
async def _client(settings: Settings) -> AsyncIterator[Client]:
    metrics.show(instruments.REACHABLE, metrics.reachable(postgresql=True, nats=False))
    connect = partial(connections.connect, settings.nats, name="projectionist run")
    client = await nats_reach().until(connect, connections.is_away)
    try:
        yield client
    finally:
        with anyio.move_on_after(2, shield=True):
            await client.close()


def refuse_unmonitored(definitions: Iterable[ConsumerDefinition], settings: Settings) -> None:
    """Raise SettingsError if one of these stores first and no exporter shows how its backlog grows.

    With `after-commit` the broker's lag tells of trouble, to whoever watches the broker. Here it stays at zero.
    """
    stores = [d.name for d in definitions if settings.policy(d.name).ack == "after-store"]
    if stores and not settings.telemetry.monitored:
        raise SettingsError(
            f"{', '.join(stores)}: ack = 'after-store' hides a backlog from the broker, and no metrics exporter is set",
            remedy="Set exporter or endpoint of [telemetry], or allow_unmonitored = true there",
        )


def _stop(crew: Sequence[Supervised]) -> bool:
    """Ask all consumers to stop; where none has begun there is nothing to settle."""
    for one in crew:
        one.worker.stop()
    return bool(crew)


async def _late() -> None:
    log.warning("stopping at once: open batches are rolled back and delivered again")
