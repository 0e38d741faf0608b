"""One consumer in one process, from its start to its end: opens, serves, and waits out what ends by itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from projectionist.core import clock
from projectionist.core.log_format import facts
from projectionist.core.postgres.database_identity import DatabaseCopied
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.telemetry import names, server_attributes
from projectionist.core.testpoints import announce
from projectionist.runner.batch.batch_spans import BatchTracer, Places
from projectionist.runner.batch.consumer import Paused, Rejoin, Tripped, paused
from projectionist.runner.batch.context import BatchContext
from projectionist.runner.batch.lookup_reader import LookupUnavailable
from projectionist.runner.batch.planning import CONTIGUOUS
from projectionist.runner.batch.times import USUAL, BatchTimes
from projectionist.runner.consumers.header_mapping import unified
from projectionist.runner.database.barrier import BarrierTimeout
from projectionist.runner.gaps.baseline import notes
from projectionist.runner.history.progress import Logged
from projectionist.runner.jetstream.api import BrokerError, StreamMissing
from projectionist.runner.jetstream.durable_owner import DurableNotOurs
from projectionist.runner.jetstream.pull_source import JetStreamSource
from projectionist.runner.process.consumer_runtime import ConsumerRuntime
from projectionist.runner.process.end_reason import end_reason
from projectionist.runner.process.joining_views import JoiningViews
from projectionist.runner.rebuild.build_lease import AlreadyBuilding
from projectionist.runner.rebuild.rebuild import Options, Rebuild
from projectionist.runner.rebuild.registration_check import waits_to_be_built
from projectionist.runner.retention.safety import refuse_forgetting
from projectionist.runner.stream_guard.guard import Halted, StreamGuard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.core.telemetry import tracing
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.view import View
    from projectionist.runner.jetstream.api import StreamInfo
    from projectionist.runner.jetstream.durable_owner import DurableMark
    from projectionist.runner.process.database_access import DatabaseAccess

log = logging.getLogger("projectionist.runner")

RETRY_S = 1.0
"""How often a missing stream or a paused consumer is looked at again."""


class ConsumerWorker:
    """Runs one consumer until it is stopped."""

    def __init__(
        self,
        definition: ConsumerDefinition,
        settings: Settings,
        client: Client,
        access: DatabaseAccess,
        *,
        times: BatchTimes = USUAL,
    ) -> None:
        self.definition = definition
        self._settings = settings
        self._client = client
        self._access, self._times = access, times
        self._stopping = anyio.Event()
        self._serving: ConsumerRuntime | None = None
        self._logged = self._logged_headers = ""
        self._guard: StreamGuard | None = None
        self._paused = False
        self.waits: Exception | None = None
        """What it waits for to be mended elsewhere, and looks at again every second."""
        self.begun = False
        """Whether it has served, or waits for what comes by itself: it is fit to run."""
        self.well_s = 0.0
        """For how long the last try had been at work."""
        self._early = False
        """Whether this process was there before the stream: then none of its events is from before the first run."""

    @property
    def stopping(self) -> bool:
        """Return whether it was told to stop."""
        return self._stopping.is_set()

    @property
    def serving(self) -> bool:
        """Return whether it is at work."""
        return self._serving is not None

    @property
    def paused(self) -> bool:
        """Return whether somebody has paused it."""
        return self._paused

    @property
    def trouble(self) -> str | None:
        """Return why nothing of this consumer is applied now, unless somebody has paused it."""
        if self._serving is not None or self._paused:
            return None
        return f"{self.definition.name}: {self._logged or 'starting'}"

    async def run(self) -> None:
        """Serve until `stop`; raises Superseded where newer code has taken over, and what nobody can wait out."""
        while not self._stopping.is_set():
            try:
                with unwrap_single_exception():
                    await self._serve()
            except Exception as error:  # noqa: BLE001  each has its answer below, and the rest is raised again
                await self._wait_out(await self._access.explained(end_reason(error)))

    async def _wait_out(self, error: Exception) -> None:
        """Return when it is worth while to begin again after this error; raises it where that is never."""
        self._paused = isinstance(error, Paused)
        self.waits = None
        match error:
            case Rejoin():
                log.warning("%s: %s", self.definition.name, error)
                announce("worker.rejoins")
                await self.pause()
            case StreamMissing():
                self._early = True
                self.waits = StreamMissing(
                    f"stream {self.definition.stream} does not exist yet",
                    remedy="`projectionist migrate --streams` makes what the app declares",
                )
                where = f"waiting for stream {self.definition.stream}, which does not exist yet"
                await self._wait(f"{where}. {self.waits.remedy}")
            case Paused() | Tripped():
                await self._wait(str(error))
            case (
                BrokerError()
                | Halted()
                | BarrierTimeout()
                | DatabaseCopied()
                | DurableNotOurs()
                | LookupUnavailable()
            ):
                self.waits = error
                await self._wait(str(error))
            case _ if is_transient(error):
                if self._access.gates.refused(error) or self._access.gates.closed:
                    self.begun = True
                    await self.pause()
                else:
                    self.waits = error
                    await self._wait(f"PostgreSQL cannot be asked, trying again until it can: {error}")
            case _:
                raise error

    def stop(self) -> None:
        """Take nothing new; `run` returns when what has begun is settled."""
        self._stopping.set()
        if self._serving is not None:
            self._serving.stop()

    async def pause(self, seconds: float = RETRY_S) -> None:
        """Wait so long, or until it is stopped."""
        with anyio.move_on_after(seconds):
            await self._stopping.wait()

    async def _wait(self, reason: str) -> None:
        self.begun = True
        self._log_once(reason)
        announce("worker.waiting")
        await self.pause()

    async def _serve(self) -> None:
        """Open the source, join the others, and work until told to stop or the source is lost."""
        began, self.well_s = clock.now(), 0.0
        views = await self._access.registration(self.definition)
        found = views[0]
        durable_mark = await self._access.durable_mark(found["number"], self.definition.name)
        if found["paused"]:  # before anything is read that would have to wait for its redelivery
            raise paused(self.definition.name)
        mine = list(zip(self.definition.views, views, strict=True))
        joining, live = (
            [view for view, row in mine if row["state"] == state] for state in ("joining", "live")
        )
        # What a live view looks up has to be there before a batch is made.
        needed = {one for view in live for one in view.support}
        if first := [
            view
            for view, row in mine
            if waits_to_be_built(view, row) and (view not in joining or view in needed)
        ]:
            await self._build(first)
            return
        adopted = all(view.code == row["code"] for view, row in mine if row["state"] == "live")
        if adopted and await self._access.is_breaker_open(self.definition):
            raise Tripped("see `projectionist status`")
        for view in live:  # batches leave the others out
            await self._access.check_lookups(view)
        if self._guard is None:
            schema = self._settings.postgres.schema
            self._guard = StreamGuard(self.definition, found["durable"], self._client, self._access, schema)
        guard = self._guard
        source = self._source(found["durable"], guard, durable_mark)
        try:
            stream = await source.open()
        except DurableNotOurs as error:
            await self._access.taken(found["number"], error)
            raise
        try:
            self._serving = await self._joined(source, stream, guard)
            began, self.waits = clock.now(), None
            if self._stopping.is_set():
                self._serving.stop()
            with unwrap_single_exception():
                async with anyio.create_task_group() as tasks:
                    if self.definition.views[0].is_member:
                        given = (self.definition, self._settings, self._client, self._access)
                        tasks.start_soon(JoiningViews(*given).run)
                    await self._serving.run()
                    tasks.cancel_scope.cancel()
        finally:
            if self._serving is not None:
                self._serving, self.well_s = None, clock.now() - began
            with anyio.CancelScope(shield=True):
                await source.close()

    async def _joined(
        self, source: JetStreamSource, stream: StreamInfo, guard: StreamGuard
    ) -> ConsumerRuntime:
        """Join the consumer's other processes; return what serves it here."""
        policy = self._settings.policy(self.definition.name)
        refuse_forgetting(self.definition, policy, stream.config)
        consumer = await self._access.join(self.definition, policy, stream, early=self._early)
        sources = self._settings.telemetry.sources
        context = BatchContext(consumer, self._tracer(source), sources, times=self._times)
        guard.joined(context)
        self.begun = True
        await self._log_start(consumer, stream.state.first_seq)
        return ConsumerRuntime(context, self._settings, self._client, self._access, source, guard)

    async def _build(self, views: Sequence[Definition]) -> None:
        """Build generations of raised revisions while older processes serve; one process builds, others wait."""
        name, self.begun, self.waits = _told(views), True, None
        if (waits := await self._access.refused_to_build(views)) is not None:
            self.waits = waits
            await self._wait(str(waits))
            return
        given = (self.definition, self._settings, self._client, Logged(name), Options(waiting_only=True))
        builder, revisions = Rebuild(*given, views=views), _revisions(views)

        async def stop(scope: anyio.CancelScope) -> None:
            await self._stopping.wait()
            scope.cancel()

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop, tasks.cancel_scope)
                self._log_once(f"building {revisions} beside the running one")
                _log_silent(name, (await builder.run()).silent)
                tasks.cancel_scope.cancel()
        except* AlreadyBuilding as taken:
            await self._wait(f"waiting for {revisions}: {taken.exceptions[0]}")

    def _source(self, durable: str, guard: StreamGuard, durable_mark: DurableMark) -> JetStreamSource:
        definition, policy = self.definition, self._settings.policy(self.definition.name)
        return JetStreamSource(
            self._client,
            stream=definition.stream,
            durable=durable,
            subjects=definition.subjects,
            batch=self._settings.batch.max_rows,
            ack_wait_s=policy.ack_wait_s,
            contiguous=definition.sequence == CONTIGUOUS,
            judge=guard.check,
            durable_mark=durable_mark,
        )

    def _tracer(self, source: JetStreamSource) -> BatchTracer:
        def broker() -> tracing.Given:
            return server_attributes.broker(self._client) | {names.GROUP: source.durable}

        where = Places(broker, server_attributes.database(self._settings.postgres.url))
        return BatchTracer(self.definition, self._settings.telemetry, where)

    async def _log_start(self, consumer: Consumer, first_seq: int) -> None:
        begins = first_seq > 1 and await self._access.has_open_baselines(consumer)
        for note in notes(self.definition, first_seq, begins=begins):
            log.warning("%s: %s", self.definition.name, note)
        for place in self.definition.unfollowed:
            log.info("%s: a change of %s is not noticed as new code", self.definition.name, place)
        for handler in [f"{one.name}.{each}" for one in self.definition.views for each in one.below_shared]:
            log.warning(
                "%s: of rows= that aggregates share, one made at the same moment may be left out", handler
            )
        if (difference := await self._access.header_disagreement(consumer)) != self._logged_headers:
            self._logged_headers = difference
            if difference:
                log.warning("%s: %s. %s", self.definition.name, difference, unified(self.definition.name))
        self._log_once("; ".join(map(_begins, consumer.views)))
        announce("worker.running")

    def _log_once(self, text: str) -> None:
        """Log one line a change, however often it is looked at."""
        if text != self._logged:
            self._logged = text
            log.info("%s: %s", self.definition.name, text)


def _told(views: Sequence[Definition]) -> str:
    return ", ".join(view.full_name for view in views)


def _revisions(views: Sequence[Definition]) -> str:
    return ", ".join(
        f"revision {view.revision} of {view.name}" if view.is_member else f"revision {view.revision}"
        for view in views
    )


def _begins(view: View) -> str:
    """Say under what a view is written: of several each by its name."""
    mark, name = view.row.effects[1], f"{view.definition.name}: " if view.definition.is_member else ""
    silent = f"; the {mark - 1} older ones update rows only" if mark > 1 else ""
    real = f"side effects are made for events from sequence {max(mark, 1)} on{silent}"
    return f"{name}generation {view.generation}, {real}"


def _log_silent(name: str, silent: Mapping[str, int]) -> None:
    """Log the effects that a build did not make again, since live has made them."""
    if silent:
        slots = ", ".join(f"{n} x {slot}" for slot, n in silent.items())
        about = facts(consumer=name, count=sum(silent.values()), kind="suppressed")
        log.info("%s: intents of history are not made by the build: %s", name, slots, extra=about)
