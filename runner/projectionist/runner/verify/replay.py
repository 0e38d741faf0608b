"""Replay: hands a range of the stream to the ordinary batch transaction, which knows what is settled already."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from projectionist.core.telemetry import names, tracing
from projectionist.core.testpoints import announce
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.batch.batch_session import BatchSession, store_of
from projectionist.runner.batch.consumer import Consumer, ControlRow
from projectionist.runner.batch.context import BatchContext
from projectionist.runner.batch.handler_factory import model_for
from projectionist.runner.batch.planning import UNORDERED
from projectionist.runner.batch.types import Batch
from projectionist.runner.batch.view import View, ViewRow
from projectionist.runner.consumers.header_mapping import written
from projectionist.runner.consumers.intent_slots import frozen
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_reader import scan
from projectionist.runner.pipeline.batch_retry import BatchSettler
from projectionist.runner.verify.refold_rows import named

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.nats.fast_client import Arrival
    from projectionist.core.operator import Act
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.decoding.delivery import Unreadable
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.jetstream.stream_range import Range

BATCH = 1_000
LISTED = 20

FORBIDDEN, NO_EFFECTS, ALLOW = "forbidden", "no-effects", "allow"


class Replayed(msgspec.Struct):
    """The result of a replay."""

    consumer: str
    first: int
    last: int
    policy: str
    events: int = 0
    settled: int = 0
    """Known already: nothing happened to them."""
    unsettled: int = 0
    """Not settled yet: applied under `allow`, otherwise left to the live runner."""
    unsettled_named: list[str] = []
    unreadable: int = 0
    outcomes: dict[str, int] = {}
    """What became of those that were applied."""
    suppressed: dict[str, int] = {}
    """Intents below the effects mark, by slot: counted and not made."""


class Replayer:
    """Replays ranges for one consumer."""

    def __init__(
        self,
        queries: Queries,
        definition: ConsumerDefinition,
        settings: Settings,
        client: Client,
        progress: Progress,
    ) -> None:
        self._queries = queries
        self._definition = definition
        self._settings = settings
        self._client = client
        self._progress = progress
        has_rows = any(view.kind is not Kind.REACTOR for view in definition.views)
        self._policy = settings.policy(definition.name).replay or (NO_EFFECTS if has_rows else FORBIDDEN)

    async def run(self, span: Range, act: Act, *, dry_run: bool = False) -> Replayed:
        """Hand the range over. Only what is not settled, and only under `allow`, is applied, with its effects."""
        if self._policy == FORBIDDEN:
            raise RebuildError(
                f"replaying {self._definition.name} is forbidden: what it does is done outside, not in rows",
                remedy=f'Set replay = "no-effects" or "allow" in [consumers.{self._definition.name}] to permit it',
            )
        with tracing.whole(names.REPLAY_RANGE, self._definition.name) as traced:
            result = await self._run(span, act, dry_run=dry_run)
            traced.set_attribute(names.EVENTS_READ, result.events)
            return result

    async def _run(self, span: Range, act: Act, *, dry_run: bool) -> Replayed:
        rows = await self._registered()
        await self._refuse_forgotten(rows[0]["number"], span)
        stream = await api.stream(self._client, self._definition.stream)
        result = Replayed(
            consumer=self._definition.name, first=span.first, last=span.last, policy=self._policy
        )
        consumer = await self._consumer(rows)
        try:
            if dry_run:
                await self._each(span, stream, consumer, None, result)
            else:
                await self._settled(span, stream, consumer, act, result)
        finally:
            await self._queries.run("stop_replay_runner", consumer.runner)
        return result

    async def _settled(
        self, span: Range, stream: api.StreamInfo, consumer: Consumer, act: Act, result: Replayed
    ) -> None:
        detail = msgspec.json.encode({"policy": self._policy}).decode()
        about = ("replay", f"{span.first}..{span.last}", act.actor, act.reason, detail)
        await self._queries.run("insert_audit_entry", consumer.number, *about)
        schema = self._settings.postgres.schema
        session = BatchSession(consumer, self._settings.postgres, lambda c, who: model_for(c, who, schema))
        try:
            await self._each(span, stream, consumer, BatchSettler(BatchContext(consumer), session), result)
        finally:
            await session.close()
        announce("replay.done")

    async def _refuse_forgotten(self, consumer: int, span: Range) -> None:
        """Refuse a range of which retention has removed inbox rows: without order its events would look new."""
        purged_up_to = await self._queries.value("select_purged_up_to", consumer) or 0
        if self._definition.sequence == UNORDERED and span.first <= purged_up_to:
            raise RebuildError(
                f"up to sequence {purged_up_to} retention has removed what {self._definition.name} knew of its events: "
                "they would be applied once more",
                remedy=f"Begin at {purged_up_to + 1}",
            )

    async def _each(
        self,
        span: Range,
        stream: api.StreamInfo,
        consumer: Consumer,
        settler: BatchSettler | None,
        result: Replayed,
    ) -> None:
        filter_subject = self._definition.subjects.filter
        last = min(span.last, stream.state.last_seq)
        self._progress.begin("replaying", max(0, last - span.first + 1))
        async for block in scan(self._client, self._definition.stream, filter_subject, span.first, last):
            for start in range(0, len(block), BATCH):
                await self._batch(block[start : start + BATCH], consumer, settler, result)
            await self._progress.advance(len(block))

    async def _batch(
        self, arrivals: Sequence[Arrival], consumer: Consumer, settler: BatchSettler | None, result: Replayed
    ) -> None:
        deliveries: list[Delivery] = []
        unreadable: list[Unreadable] = []
        for one in map(consumer.reader.read, arrivals):
            if isinstance(one, Delivery):
                deliveries.append(one)
            elif one is not None:
                unreadable.append(one)
        known = await self._known(consumer, deliveries)
        fresh = [d for d in deliveries if (d.source, d.id) not in known]
        result.events += len(deliveries) + len(unreadable)
        result.settled += len(deliveries) - len(fresh)
        result.unsettled += len(fresh)
        result.unreadable += len(unreadable)
        result.unsettled_named += [named(d) for d in fresh[: LISTED - len(result.unsettled_named)]]
        if settler is None:
            return
        if self._policy != ALLOW:
            deliveries, unreadable = [d for d in deliveries if (d.source, d.id) in known], []
        for applied in await settler.settle(Batch(deliveries=deliveries, unreadable=unreadable)):
            _count(applied.writes.counts, result)

    async def _known(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> set[tuple[str, str]]:
        store = store_of(self._queries.connection, self._queries.schema, consumer.number)
        return set(await store.known((d.source, d.id) for d in deliveries))

    async def _registered(self) -> list[Record]:
        """Return the registrations of the views that batches write, which this code has all as they are."""
        rows = await self._queries.rows("select_consumer_views", self._definition.name)
        if not rows:
            raise RebuildError(
                f"consumer {self._definition.name!r} is not in the database yet",
                remedy="Run `projectionist migrate`",
            )
        code = {view.name: view.code for view in self._definition.views}
        live = [row for row in rows if row["state"] == "live"]
        if any(row["code"] != code.get(row["view_name"]) for row in live):
            raise RebuildError(
                f"{self._definition.name} is run by other code than this",
                remedy="Replay with the code that runs",
            )
        return live

    async def _consumer(self, rows: Sequence[Record]) -> Consumer:
        definition, number = self._definition, rows[0]["number"]
        policy = self._settings.policy(definition.name)
        given = (number, uuid4(), socket.gethostname(), os.getpid(), definition.code)
        runner = await self._queries.value("insert_runner", *given, written(policy.headers))
        control = ControlRow.of(await self._queries.rows("select_control_row", number))
        registered = {row["view_name"]: row for row in rows}
        views = [
            await self._view(view, registered[view.name])
            for view in definition.views
            if view.name in registered
        ]
        return Consumer(definition, policy, number, runner, views, control)

    async def _view(self, view: Definition, row: Record) -> View:
        slots = [found["name"] for found in await self._queries.rows("select_intent_slots", row["view"])]
        names = frozen(view.name, slots, view.slots)
        return View(view, row["key_name"], names, ViewRow(number=row["view"]))


def _count(counts: Counter[tuple[str, str]], result: Replayed) -> None:
    for (_, outcome), number in counts.items():
        slot = outcome.removeprefix("suppressed_")
        into, name = (result.outcomes, outcome) if slot == outcome else (result.suppressed, slot)
        into[name] = into.get(name, 0) + number
