"""The bulk: the stream from its beginning to the floor, judged, folded in memory, and put into the shadow by COPY.

There is no outbox writer here: what handlers ask for is counted and forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING, Any

from anyio.lowlevel import checkpoint

from projectionist.core import clock
from projectionist.core.testpoints import announce
from projectionist.core.user_errors import RAISED, is_ours
from projectionist.projections.folding.rows import Rows
from projectionist.projections.folding.step import key_of
from projectionist.runner.batch.handlers import step_of
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.history.fold_pace import SLICE_S, divided
from projectionist.runner.history.handler_failures import (
    MOST_TOLD,
    HandlerFailure,
    HandlersFailed,
    handler_failure,
)
from projectionist.runner.history.spill_files import Buckets, Spill
from projectionist.runner.jetstream.stream_reader import scan, sequence

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.nats.fast_client import Arrival
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.event import AnyEvent
    from projectionist.projections.handlers import Handler
    from projectionist.projections.reactor_answers import HandlerResult
    from projectionist.runner.batch.decisions import Decisions
    from projectionist.runner.batch.row_key_type import OwnType
    from projectionist.runner.decoding.decoder import Decoder
    from projectionist.runner.history.applied_filter import AggregateProgress, AppliedFilter
    from projectionist.runner.history.progress import Progress

Use = Callable[["Delivery", "AggregateProgress | None"], None]
"""What is done with an event; the track of its aggregate is known if it came in its turn."""


class Slow(Exception):
    """Handlers take so long that what is folded should be kept now and then, in so many buckets."""

    def __init__(self, buckets: int) -> None:
        super().__init__(f"handlers take their time, {buckets} minutes or so")
        self.buckets = buckets


class Folding:
    """Rows of one bucket, or all, folded event by event."""

    def __init__(
        self,
        definition: Definition,
        silent: Counter[str],
        own: OwnType,
        bucket: tuple[Buckets, int] | None = None,
    ) -> None:
        assert definition.table is not None, "only a Projection has rows of its own"
        self._definition = definition
        self._rows = Rows(definition.cls, definition.table, {})
        self._handlers = definition.handlers
        self._silent = silent
        self._own = own
        self._bucket = bucket
        self._stopped: set[str | None] = set()
        self.stumbles: list[HandlerFailure] = []

    def fold(self, delivery: Delivery, track: AggregateProgress | None = None) -> None:
        """Fold one event, whose aggregate has this track; a failure stops its aggregate and is noted."""
        if delivery.problem is not None:
            self._fail(delivery, ("", delivery.problem))
            return
        event, aggregate = delivery.event, delivery.aggregate
        if event is None or delivery.discarded or (self._stopped and aggregate in self._stopped):
            return
        handler = self._handlers[delivery.type]
        try:
            answer = self._put(handler, delivery, event, track)
            if self._own.known is None:
                self._own.decide(handler, delivery)
        except RAISED as error:  # a handler is a user's code: what it raises is its event's failure
            if is_ours(error):
                raise
            self._fail(delivery, error, self._rows.where(handler))
            return
        if answer is not None:
            self._silent.update(one.counted for one in answer.intents)

    def _put(
        self, handler: Handler, delivery: Delivery, event: AnyEvent, track: AggregateProgress | None
    ) -> HandlerResult | None:
        cell = None if track is None else track.cell
        if cell is None or not handler.by_id:
            aggregate = delivery.aggregate
            self._own.check(handler, aggregate)
            own = None if aggregate is None else aggregate.partition("/")[2]
            key = key_of(handler, own, event, delivery.envelope)
            if handler.several:
                within = key if self._bucket is None else self._bucket[0].within(key, self._bucket[1])
                return self._rows.put_all(handler, self._rows.cells(within), event, delivery.envelope)
            cell = self._rows.cell(key)
            if track is not None and handler.by_id:
                track.cell = cell
        return self._rows.put(handler, cell, event, delivery.envelope)

    def _fail(self, delivery: Delivery, error: BaseException | tuple[str, str], row: str = "") -> None:
        self.stumbles.append(handler_failure(delivery, error, row))
        self._stopped.add(delivery.aggregate)
        if len(self.stumbles) >= MOST_TOLD:
            raise HandlersFailed(self.stumbles)

    def rows(self) -> Iterable[tuple[Any, ...]]:
        """Return the rows that are there in the end; raises HandlersFailed where a handler has failed."""
        if self.stumbles:
            raise HandlersFailed(self.stumbles)
        return [row for row in self._rows.changed().values() if row is not None]


class Bulk:
    """One pass over the stream."""

    def __init__(
        self,
        client: Client,
        definition: Definition,
        reader: Decoder,
        judge: AppliedFilter,
        decisions: Decisions,
        progress: Progress,
        own: OwnType,
    ) -> None:
        """Take what is folded into; `own` is found out on the way where it is not known yet."""
        self._client = client
        self._definition = definition
        self._read = decisions.reading(reader)
        self.judge = judge
        self._progress = progress
        self._worked_s = 0.0
        self._own = own
        self.events = 0
        self.silent: Counter[str] = Counter()
        """Intents that were asked for and not written, by slot."""

    async def fold(
        self, filter_subject: str, first: int, last: int, *, kept_s: float | None = None
    ) -> Iterable[tuple[Any, ...]]:
        """Read it, and fold everything in memory; raises Slow where parts that take `kept_s` are better kept."""
        folding = Folding(self._definition, self.silent, self._own)
        buckets = 1 if kept_s is None else 0
        async with aclosing(self.read(filter_subject, first, last, folding.fold)) as slices:
            async for at in slices:
                if kept_s is not None and not buckets:
                    buckets = divided(self._worked_s, (at - first + 1) / (last - first + 1), kept_s)
                if buckets > 1:
                    raise Slow(buckets)
        return folding.rows()

    async def spill(self, filter_subject: str, first: int, last: int, into: Spill) -> None:
        """Read it, and put what is to be folded on disk, by bucket."""
        folding = Folding(self._definition, self.silent, self._own)

        def put(delivery: Delivery, _: AggregateProgress | None = None) -> None:
            step = step_of(self._definition, delivery.seq, delivery)
            if delivery.problem is not None or (step is not None and isinstance(step.key, Exception)):
                folding.fold(delivery)  # it fails, whatever is in the row
            elif step is not None and delivery.arrival is not None:
                self._own.decide(step.handler, delivery)  # in stream order, whatever bucket comes first
                for bucket in into.buckets.of_event(step.key):
                    into.put(bucket, delivery.arrival)

        async for _ in self.read(filter_subject, first, last, put):
            pass
        folding.rows()

    async def fold_spilled(self, spill: Spill, bucket: int) -> Iterable[tuple[Any, ...]]:
        """Fold one bucket, in the order in which it was put on disk."""
        folding = Folding(self._definition, self.silent, self._own, (spill.buckets, bucket))
        until = clock.now() + SLICE_S
        for arrival in spill.read(bucket):
            delivery = self._read(arrival)
            assert isinstance(delivery, Delivery), "it was read before"
            folding.fold(delivery)
            if clock.now() > until:
                await checkpoint()
                until = clock.now() + SLICE_S
        return folding.rows()

    async def read(self, filter_subject: str, first: int, last: int, use: Use) -> AsyncGenerator[int, None]:
        """Call `use` with every event that may be folded, in order; what cannot be read was put aside by live.

        Yields now and then, and other tasks have had their turn then: the sequence up to which it is all.
        """
        async for block in scan(self._client, self._definition.stream, filter_subject, first, last):
            at = 0
            while at < len(block):
                before, at = at, self._take(block, at, use)
                self.events += at - before
                await checkpoint()
                yield sequence(block[at - 1])
            announce("rebuild.read")
            await self._progress.advance(len(block))

    async def batches(
        self, filter_subject: str, first: int, last: int, size: int
    ) -> AsyncIterator[tuple[list[Delivery], int]]:
        """Yield the events that may be folded, in batches, each with the sequence up to which it is all."""
        found: list[Delivery] = []

        def keep(delivery: Delivery, _: AggregateProgress | None) -> None:
            found.append(delivery)

        async for block in scan(self._client, self._definition.stream, filter_subject, first, last):
            for start in range(0, len(block), size):
                part, found = block[start : start + size], []
                taken = 0
                while taken < len(part):
                    taken = self._take(part, taken, keep)
                yield found, sequence(part[-1])
            self.events += len(block)
            await self._progress.advance(len(block))

    def _take(self, arrivals: Sequence[Arrival], at: int, use: Use) -> int:
        """Use them from this index on, for no longer than a slice; up to which index that was."""
        read, track_of, take, now = self._read, self.judge.next, self.judge.take, clock.now
        began = now()
        until = began + SLICE_S
        for arrival in islice(arrivals, at, None):
            at += 1
            delivery = read(arrival)
            if delivery.__class__ is not Delivery:
                continue
            track = track_of(delivery)
            if track is not None:
                use(delivery, track)
            else:
                for one in take(delivery):
                    use(one, None)
            if now() > until:
                break
        self._worked_s += now() - began
        return at
