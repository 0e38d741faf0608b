"""`run`: the consumers of an app in one process, until a signal asks it to stop."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import anyio

from projectionist.core import broker, db
from projectionist.core.errors import SettingsError
from projectionist.core.signals import announce
from projectionist.runner.groups import flattened
from projectionist.runner.office import Office
from projectionist.runner.worker import Worker

if TYPE_CHECKING:
    from projectionist.core.settings import Settings
    from projectionist.projections.definition import Definition

log = logging.getLogger("projectionist.runner")

MOST_CONNECTIONS = 3
"""For registrations and heartbeats; every consumer has one more for its batches."""


async def run(definitions: Sequence[Definition], settings: Settings, *, readopt: bool = False) -> None:
    """Run these consumers; returns after SIGTERM or SIGINT, when what had begun is settled or the deadline is over.

    Raises what no waiting mends: settings that cannot work, a consumer that newer code has taken over.
    """
    refuse_unwatched(definitions, settings)
    pool = await db.pool(settings.postgres, application_name="projectionist run", most=MOST_CONNECTIONS)
    try:
        client = await broker.connect(settings.nats, name="projectionist run")
        try:
            office = Office(pool, settings.postgres.schema, readopt=readopt)
            workers = [Worker(definition, settings, client, office) for definition in definitions]
            with flattened():
                await _together(workers, settings.run.shutdown_s)
        finally:
            with anyio.move_on_after(2, shield=True):
                await client.close()
    finally:
        with anyio.move_on_after(2, shield=True):
            await pool.close()
        pool.terminate()


def refuse_unwatched(definitions: Iterable[Definition], settings: Settings) -> None:
    """SettingsError if one of these stores first and nobody is there to see its backlog grow.

    With `after-commit` the broker's lag tells of trouble, to whoever watches the broker. Here it stays at zero.
    """
    stores = [d.name for d in definitions if settings.policy(d.name).ack == "after-store"]
    if stores and not settings.telemetry.watched:
        raise SettingsError(
            f"{', '.join(stores)}: ack = 'after-store' hides a backlog from the broker, and nobody is told of it here",
            remedy="Set exporter or endpoint of [telemetry], or unwatched = 'accepted' there",
        )


async def _together(workers: Sequence[Worker], patience_s: float) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_on_signal, workers, tasks.cancel_scope, patience_s)
        async with anyio.create_task_group() as running:
            for worker in workers:
                running.start_soon(worker.run)
        tasks.cancel_scope.cancel()
    announce("run.stopped")


async def _stop_on_signal(workers: Sequence[Worker], scope: anyio.CancelScope, patience_s: float) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        announce("run.started")
        async for number in signals:
            log.info("%s: stopping; what has begun is settled", signal.Signals(number).name)
            for worker in workers:
                worker.stop()
            break
        with anyio.move_on_after(patience_s):
            async for _ in signals:
                break
        log.warning("stopping at once: open batches are rolled back and delivered again")
        scope.cancel()
