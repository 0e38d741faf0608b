"""The bulk: the stream from its beginning to the floor, judged, folded in memory, and put into the shadow by COPY.

There is no outbox writer here: what handlers ask for is counted and forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from anyio.lowlevel import checkpoint

from projectionist.core import clock
from projectionist.core.testpoints import announce
from projectionist.core.user_errors import RAISED, is_ours
from projectionist.projections.folding.fold import reactor_of
from projectionist.projections.folding.looked_up import LookedUpRows
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
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.decisions import Decisions
    from projectionist.runner.batch.lookup_reader import LookupReader
    from projectionist.runner.batch.row_key_type import OwnType
    from projectionist.runner.history.applied_filter import AggregateProgress, AppliedFilter
    from projectionist.runner.history.progress import Progress

Use = Callable[["Delivery", "AggregateProgress | None"], None]
"""What is done with an event; the track of its aggregate is known if it came in its turn."""


class Slow(Exception):
    """Handlers take so long that what is folded should be kept now and then, in so many buckets."""

    def __init__(self, buckets: int) -> None:
        super().__init__(f"handlers take their time, {buckets} minutes or so")
        self.buckets = buckets


class FoldedView(NamedTuple):
    """A view whose rows are folded; whose ids its keys are, is found out on the way where it is not known yet."""

    number: int
    definition: Definition
    own: OwnType
    lookups: LookupReader | None


class _ViewRows:
    """Rows of one view, of one bucket or all."""

    def __init__(self, view: FoldedView, bucket: tuple[int, int] | None, *, remembers: bool) -> None:
        definition = view.definition
        assert definition.table is not None, "only a Projection has rows of its own"
        looked_up = None if view.lookups is None else view.lookups.rows
        self.folded = Rows(definition.cls, definition.table, {}, looked_up)
        self._own = view.own
        self.handlers = definition.handlers
        self._bucket = None if bucket is None else (Buckets(definition, bucket[0]), bucket[1])
        self._remembers = remembers
        """Whether tracks remember rows of this view, and no other's."""

    def put(
        self, handler: Handler, delivery: Delivery, event: AnyEvent, track: AggregateProgress | None
    ) -> HandlerResult | None:
        """Run the handler on the rows of the event that are of this bucket."""
        cell = track.cell if self._remembers and track is not None else None
        if cell is None or not handler.by_id:
            aggregate = delivery.aggregate
            self._own.check(handler, aggregate)
            own = None if aggregate is None else aggregate.partition("/")[2]
            key = key_of(handler, own, event, delivery.envelope)
            if self._bucket is not None and (key := self._bucket[0].within(key, self._bucket[1])) is None:
                return None
            if handler.several:
                return self.folded.put_all(handler, self.folded.cells(key), event, delivery.envelope)
            cell = self.folded.cell(key)
            if self._remembers and track is not None and handler.by_id:
                track.cell = cell
        return self.folded.put(handler, cell, event, delivery.envelope)

    def decide(self, handler: Handler, delivery: Delivery) -> None:
        """Note that this event was applied."""
        if self._own.known is None:
            self._own.decide(handler, delivery)

    def where(self, handler: Handler) -> str:
        """Return the row on which the handler has failed."""
        return self.folded.where(handler)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows that are there in the end."""
        return [row for row in self.folded.changed().values() if row is not None]


class _Reactions:
    """What a view without rows asks for: counted, and made by nobody."""

    def __init__(self, view: FoldedView, bucket: tuple[int, int] | None) -> None:
        self._definition = view.definition
        self._react = reactor_of(
            view.definition, LookedUpRows() if view.lookups is None else view.lookups.rows
        )
        # An event is read from disk once for each bucket that it has rows in.
        self.handlers = view.definition.handlers if bucket is None else {}

    def put(
        self, handler: Handler, delivery: Delivery, event: AnyEvent, track: AggregateProgress | None
    ) -> HandlerResult | None:
        """Run the handler."""
        step = step_of(self._definition, delivery.seq, delivery)
        return None if step is None else self._react(step)

    def decide(self, handler: Handler, delivery: Delivery) -> None:
        """Do nothing: no ids are keys."""

    def where(self, handler: Handler) -> str:
        """Return nothing: there is no row."""
        return ""

    def rows(self) -> list[tuple[Any, ...]]:
        """Return none."""
        return []


class Folding:
    """Rows of one bucket, or all, of every view, folded event by event; `bucket`: of how many, and which."""

    def __init__(
        self, views: Sequence[FoldedView], silent: Counter[str], bucket: tuple[int, int] | None = None
    ) -> None:
        first = next((view for view in views if view.definition.table is not None), None)
        self._views = [
            _Reactions(view, bucket)
            if view.definition.table is None
            else _ViewRows(view, bucket, remembers=view is first)
            for view in views
        ]
        assert bucket is None or not any(view.definition.looks_up for view in views), (
            "it may be in any bucket"
        )
        with_rows = {
            view.definition: its.folded
            for view, its in zip(views, self._views, strict=True)
            if isinstance(its, _ViewRows)
        }
        _follow(views, with_rows)
        self._lookups = [one for view in views if (one := view.lookups) is not None and one.needed]
        self._taken: list[tuple[Delivery, AggregateProgress | None]] = []
        self._silent = silent
        self._stopped: set[str | None] = set()
        self.stumbles: list[HandlerFailure] = []

    def take(self, delivery: Delivery, track: AggregateProgress | None = None) -> None:
        """Fold one event, at once or, where handlers look rows up, when these are read."""
        if self._lookups:
            self._taken.append((delivery, track))
        else:
            self.fold(delivery, track)

    async def settle(self) -> None:
        """Fold what was taken and is not folded yet."""
        if self._taken:
            taken, self._taken = self._taken, []
            for lookups in self._lookups:
                await lookups.read_deliveries(one for one, _ in taken)
            for delivery, track in taken:
                self.fold(delivery, track)

    def fold(self, delivery: Delivery, track: AggregateProgress | None = None) -> None:
        """Fold one event, whose aggregate has this track; a failure stops its aggregate and is noted."""
        if delivery.problem is not None:
            self._fail(delivery, ("", delivery.problem))
            return
        event, aggregate = delivery.event, delivery.aggregate
        if event is None or delivery.discarded or (self._stopped and aggregate in self._stopped):
            return
        for view in self._views:
            if (handler := view.handlers.get(delivery.type)) is None:
                continue
            try:
                answer = view.put(handler, delivery, event, track)
                view.decide(handler, delivery)
            except RAISED as error:  # a handler is a user's code: what it raises is its event's failure
                if is_ours(error):
                    raise
                self._fail(delivery, error, view.where(handler))
                return
            if answer is not None:
                self._silent.update(one.counted for one in answer.intents)

    def _fail(self, delivery: Delivery, error: BaseException | tuple[str, str], row: str = "") -> None:
        self.stumbles.append(handler_failure(delivery, error, row))
        self._stopped.add(delivery.aggregate)
        if len(self.stumbles) >= MOST_TOLD:
            raise HandlersFailed(self.stumbles)

    def rows(self) -> list[list[tuple[Any, ...]]]:
        """Return the rows that are there in the end, by view; raises HandlersFailed where a handler has failed."""
        if self.stumbles:
            raise HandlersFailed(self.stumbles)
        return [view.rows() for view in self._views]


def _follow(views: Sequence[FoldedView], rows: Mapping[Definition, Rows]) -> None:
    """Let views look each other's rows up, of which there are no others: whoever folds by buckets looks none up."""
    kinds = {view.definition: view.own for view in views}
    for view in views:
        if view.lookups is not None:
            needed = [one for one in view.definition.looks_up if one in rows]
            found = {one.source: rows[one] for one in needed}
            view.lookups.rows.follow(found, {one.source: kinds[one] for one in needed}, is_all=True)


class Bulk:
    """One pass over the stream, for all views of a consumer."""

    def __init__(
        self,
        client: Client,
        consumer: Consumer,
        judge: AppliedFilter,
        decisions: Decisions,
        progress: Progress,
        lookups: Mapping[int, LookupReader] | None = None,
    ) -> None:
        """Take what is folded; without `lookups`, by view, where handlers look rows up, their events fail."""
        self._client = client
        self._stream = consumer.definition.stream
        self._read = decisions.reading(consumer.reader)
        self.judge = judge
        self._progress = progress
        self._worked_s = 0.0
        self.views = [
            FoldedView(view.number, view.definition, view.owned(), (lookups or {}).get(view.number))
            for view in consumer.views
        ]
        self.events = 0
        self.silent: Counter[str] = Counter()
        """Intents that were asked for and not written, by slot."""

    def folding(self, bucket: tuple[int, int] | None = None) -> Folding:
        """Return a fold of all rows, or of those of one bucket of so many."""
        return Folding(self.views, self.silent, bucket)

    async def fold(
        self, filter_subject: str, first: int, last: int, *, kept_s: float | None = None
    ) -> list[list[tuple[Any, ...]]]:
        """Read it, and fold everything in memory; raises Slow where parts that take `kept_s` are better kept.

        Returns the rows of each view.
        """
        folding = self.folding()
        buckets = 1 if kept_s is None else 0
        async with aclosing(self.read(filter_subject, first, last, folding.take)) as slices:
            async for at in slices:
                began = clock.now()
                await folding.settle()
                self._worked_s += clock.now() - began
                if kept_s is not None and not buckets:
                    buckets = divided(self._worked_s, (at - first + 1) / (last - first + 1), kept_s)
                if buckets > 1:
                    raise Slow(buckets)
        return folding.rows()

    async def spill(self, filter_subject: str, first: int, last: int, into: Spill) -> None:
        """Read it, and put what is to be folded on disk, by bucket."""
        folding = self.folding()
        with_rows = [view for view in self.views if view.definition.table is not None]
        views = [(view, Buckets(view.definition, into.buckets)) for view in with_rows]
        # They have no rows, so that it is all the same when they run: now, once, in stream order.
        reacting = Folding([view for view in self.views if view not in with_rows], self.silent)

        def put(delivery: Delivery, _: AggregateProgress | None = None) -> None:
            buckets = set[int]()
            for view, of_view in views:
                handled = delivery.type in view.definition.handlers
                step = step_of(view.definition, delivery.seq, delivery) if handled else None
                if delivery.problem is not None or (step is not None and isinstance(step.key, Exception)):
                    folding.fold(delivery)  # it fails, whatever is in the row
                    return
                if step is not None:
                    view.own.decide(step.handler, delivery)  # in stream order, whatever bucket comes first
                    buckets.update(of_view.of_event(step.key))
            reacting.take(delivery)
            if delivery.arrival is not None:
                for bucket in buckets:
                    into.put(bucket, delivery.arrival)

        async for _ in self.read(filter_subject, first, last, put):
            await reacting.settle()
        folding.rows()
        reacting.rows()

    async def fold_spilled(self, spill: Spill, bucket: int) -> list[list[tuple[Any, ...]]]:
        """Fold one bucket, in the order in which it was put on disk; return the rows of each view."""
        folding = self.folding((spill.buckets, bucket))
        until = clock.now() + SLICE_S
        for arrival in spill.read(bucket):
            delivery = self._read(arrival)
            assert isinstance(delivery, Delivery), "it was read before"
            folding.take(delivery)
            if clock.now() > until:
                await folding.settle()
                await checkpoint()
                until = clock.now() + SLICE_S
        await folding.settle()
        return folding.rows()

    async def read(self, filter_subject: str, first: int, last: int, use: Use) -> AsyncGenerator[int, None]:
        """Call `use` with every event that may be folded, in order; what cannot be read was put aside by live.

        Yields now and then, and other tasks have had their turn then: the sequence up to which it is all.
        """
        async for block in scan(self._client, self._stream, filter_subject, first, last):
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

        async for block in scan(self._client, self._stream, filter_subject, first, last):
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
