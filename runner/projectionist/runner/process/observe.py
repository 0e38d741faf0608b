"""`observe`: a process that tells where consumers and the outbox stand, also when nobody runs them."""

from __future__ import annotations

import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio

from projectionist.core.gate import nats_reach
from projectionist.core.nats import connections
from projectionist.core.postgres import connections as db
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.telemetry import instruments, liveness, metrics
from projectionist.core.testpoints import announce
from projectionist.runner.batch.batch_session import tag
from projectionist.runner.telemetry.audit_log import AuditLog
from projectionist.runner.telemetry.state_metrics import LOOKING_S, StateMetrics

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.core.telemetry.health_server import Health
    from projectionist.projections.compiled.definition import ConsumerDefinition

log = logging.getLogger("projectionist.observe")


def session_name(schema: str) -> str:
    """Return what the session of an observer is called in PostgreSQL, by which others see that one runs."""
    return f"projectionist observe {tag(schema)}"  # PostgreSQL cuts long names, and keeps ASCII alone


async def observe(
    definitions: Sequence[ConsumerDefinition] | None,
    settings: Settings,
    *,
    prepared: Callable[[Connection], Awaitable[None]],
    health: Health,
) -> None:
    """Look every `[telemetry] metrics_interval_s` seconds, until SIGTERM or SIGINT.

    `definitions`: the consumers to look after, registered or not; None: all that are registered. A server that is
    away is waited for, and shown as away. `prepared` looks at the database at first, and raises if it does not fit.
    """
    looks = StateMetrics(definitions, settings)
    watch = _Watch(looks, settings, prepared)
    health.troubles, health.scale = watch.troubles, looks.board.told
    metrics.ask(instruments.REACHABLE, watch.reachable)
    with unwrap_single_exception():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_signal, tasks.cancel_scope)
            tasks.start_soon(watch.keep_connected)
            tasks.start_soon(watch.run, health)
    announce("observe.stopped")


class _Watch:
    """The connections of one observer, and its looks."""

    def __init__(
        self, observer: StateMetrics, settings: Settings, prepared: Callable[[Connection], Awaitable[None]]
    ) -> None:
        self._observer, self._settings, self._prepared = observer, settings, prepared
        self._acts = AuditLog(settings.postgres.schema) if settings.telemetry.audit_log else None
        self._connection: Connection | None = None
        self._client: Client | None = None
        self._answers: bool | None = None

    def reachable(self) -> metrics.Shown:
        return metrics.reachable(postgresql=bool(self._answers), nats=self._broker_answers())

    def troubles(self) -> list[str]:
        away = [] if self._broker_answers() else ["NATS cannot be reached"]
        return away + ([] if self._answers else ["PostgreSQL cannot be used"])

    def _broker_answers(self) -> bool:
        return self._client is not None and self._client.is_connected

    async def keep_connected(self) -> None:
        """Connect to the broker, however long that takes; it comes back by itself afterwards."""
        connect = partial(connections.connect, self._settings.nats, name="projectionist observe")
        self._client = await nats_reach().until(connect, connections.is_away)
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.move_on_after(2, shield=True):
                await self._client.close()

    async def run(self, health: Health) -> None:
        metrics_interval_s = self._settings.telemetry.metrics_interval_s
        try:
            while True:
                await self._look()
                health.started = health.started or not self.troubles()
                liveness.beat("observe", within_s=2 * (metrics_interval_s + LOOKING_S))
                announce("telemetry.observed")
                await anyio.sleep(metrics_interval_s)
        finally:
            self._give_up()

    async def _look(self) -> None:
        try:
            with anyio.fail_after(LOOKING_S):
                if self._connection is None:
                    self._connection = await db.connect(
                        self._settings.postgres,
                        application_name=session_name(self._settings.postgres.schema),
                    )
                    await self._prepared(self._connection)
                await self._observer.look(self._connection, self._client)
                if self._acts is not None:
                    await self._acts.step(self._connection)
        except Exception as error:
            self._give_up()
            if not is_transient(error):
                raise
            self._log_change(answers=False, why=str(error) or "no answer")
        else:
            self._log_change(answers=True)

    def _give_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _log_change(self, *, answers: bool, why: str = "") -> None:
        if not answers and self._answers is not False:
            log.warning("PostgreSQL cannot be used, waiting for it: %s", why)
        if answers and self._answers is False:
            log.info("PostgreSQL can be used again")
        self._answers = answers


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()
            return
