"""What a consumer's handlers make of a batch, inside its transaction: rows folded in memory, or intents alone."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from projectionist.projections.folding.failure import FailureKind
from projectionist.projections.folding.fold import fold
from projectionist.projections.folding.set_fold import ViewSteps, fold_views
from projectionist.projections.folding.step import Occurrence, Step, prepared
from projectionist.runner.batch.lookup_reader import not_live
from projectionist.runner.batch.outcomes import FailedAt
from projectionist.runner.batch.retry_policy import FailureReason, Refusal, next_attempt
from projectionist.runner.batch.row_key_type import OwnType, RowOwner, kind_of, row_owner
from projectionist.runner.batch.wanted_rows import WantedRows, bounded, wanted_rows
from projectionist.runner.batch.writes import Again

if TYPE_CHECKING:
    from projectionist.core.retry_policy import RetryPolicy
    from projectionist.outbox.intents.schedule import Emitted
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.folding.failure import Failure
    from projectionist.projections.folding.looked_up import LookedUpRows
    from projectionist.projections.lookups import LookupSource
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.lookup_reader import LookupReader
    from projectionist.runner.batch.planning import AggregatePlan
    from projectionist.runner.batch.row_table import RowTable
    from projectionist.runner.batch.view import View
    from projectionist.runner.batch.writes import EventFailure
    from projectionist.runner.decoding.delivery import Delivery


Rows = dict[Any, tuple[Any, ...]]
"""Rows in database form, by key."""


class FoldedRows(msgspec.Struct):
    """Holds the rows of one view that a batch writes."""

    rows: dict[Any, tuple[Any, ...] | None]
    """Touched rows in database form; None: to be deleted."""
    present: frozenset[Any]
    """The keys that the table held when it was read."""


class FoldedBatch(msgspec.Struct):
    """Holds what the handlers made of a batch."""

    broken: dict[int, FailedAt]
    """Where a course's run stopped, by the index of the course."""
    intents: list[tuple[Delivery, Emitted, View]]
    """Intents that handlers emitted, each with the event it is about and the view that asks for it."""
    idle: list[Delivery]
    """Events applied without effect, because no condition held."""
    rows: dict[int, FoldedRows]
    """By the number of their view."""


class Model(Protocol):
    """A consumer's handlers and what they write, inside one batch transaction."""

    @property
    def at(self) -> str | None:
        """Return the aggregate, or event without order, whose handler runs, or ran when an error came, if known."""

    @property
    def usual(self) -> Sequence[str]:
        """Return those of its own statements that a usual batch runs."""

    async def fold(self, courses: Sequence[AggregatePlan], refusal: Refusal | None) -> FoldedBatch:
        """Read what the handlers need and run them; `refusal` fails the only event instead."""

    async def write(self, folded: FoldedBatch) -> None:
        """Write what they made."""


class ViewBatch(msgspec.Struct):
    """The part of one view in a batch."""

    view: View
    steps: list[Step]
    table: RowTable | None
    kind: OwnType
    """Whose ids are keys of the rows, as far as that is known at each event."""
    loaded: Rows = msgspec.field(default_factory=dict)
    wanted: WantedRows | None = None
    looked_up: LookedUpRows | None = None
    own: RowOwner | None = None
    """Where the type of aggregate whose ids are keys is to be decided, or refused."""

    @property
    def known(self) -> AbstractSet[Any]:
        """Return the keys of which the batch knows whether there is a row."""
        return self.loaded.keys() if self.wanted is None else self.wanted.keys.union(self.loaded)


class PureHandlers:
    """Projections and Reactors: a pure fold of all views between one read and one write a view."""

    at: str | None = None

    def __init__(
        self, consumer: Consumer, tables: Mapping[int, RowTable], lookups: Mapping[int, LookupReader]
    ) -> None:
        """Take the tables of its views, and what looks up for them, by their numbers."""
        self._consumer = consumer
        self._tables = tables
        self._lookups = lookups

    @property
    def usual(self) -> Sequence[str]:
        """Return the statements that read and write the rows of live views."""
        live = [view.number for view in self._consumer.views if view.number in self._tables]
        return [statement for number in live for statement in self._tables[number].usual]

    async def fold(self, courses: Sequence[AggregatePlan], refusal: Refusal | None) -> FoldedBatch:
        """Read the rows, then run every handler in memory."""
        retry = self._consumer.policy.retry
        broken = preset(courses, retry, refusal)
        order = ordered(courses, broken)
        met = [
            occurrence(index, delivery) for index, (_, delivery) in enumerate(order) if is_handled(delivery)
        ]
        kinds = {kind_of(one[4]) for one in met}
        parts = [self._part(view, met) for view in self._consumer.views]
        for part in in_lock_order(parts):
            await self._load(part, order, kinds)
        for part in parts:
            await self._look_up(part, parts)
        if len(parts) == 1:
            folded, batch = self._folded(parts[0], order)
        else:
            folded, batch = self._folded_together(parts, order)
        for at_view, failure in folded:
            at, delivery = order[failure.step.index]
            view = parts[at_view].view.number
            broken[at] = FailedAt(courses[at].tried.index(delivery), failed(failure, delivery, retry, view))
        batch.broken.update(broken)
        for part in in_lock_order(parts):
            await self._decide(part)
        return batch

    def _part(self, view: View, met: Sequence[Occurrence]) -> ViewBatch:
        definition = view.definition
        handlers = definition.handlers
        steps = (prepared(definition, *one) for one in met if one[1] in handlers)
        listed = bounded(steps) if definition.has_several else list(steps)
        return ViewBatch(view=view, steps=listed, table=self._tables.get(view.number), kind=view.owned())

    async def _load(
        self, part: ViewBatch, order: Sequence[tuple[int, Delivery]], kinds: AbstractSet[str]
    ) -> None:
        """Read the rows that the steps need, and whose ids may be their keys; `kinds`: the types of all aggregates."""
        if part.table is None or not part.steps:
            return
        wanted = part.wanted = wanted_rows(part.steps)
        wanted.check((), len(part.steps))
        part.loaded = await part.table.load(wanted)
        wanted.check(part.loaded, len(part.steps))
        if kinds != {part.kind.known}:
            part.own = row_owner(part.kind, part.steps, order)

    async def _look_up(self, part: ViewBatch, parts: Sequence[ViewBatch]) -> None:
        """Read what the steps look up, in a statement that begins behind the locks of rows of all views: whoever this
        batch has waited for is seen."""
        if (lookups := self._lookups.get(part.view.number)) is None:
            return
        live = {one.view.definition: one for one in parts}
        known: dict[LookupSource[Any], AbstractSet[Any]] = {}
        for needed in part.view.definition.looks_up:
            if needed not in live:
                raise not_live(part.view.definition, needed)
            known[needed.source] = live[needed].known
        part.looked_up = await lookups.read_steps(part.steps, known)

    def _folded(
        self, part: ViewBatch, order: Sequence[tuple[int, Delivery]]
    ) -> tuple[list[tuple[int, Failure]], FoldedBatch]:
        """Fold the only view."""
        view = part.view
        done = fold(view.definition, part.steps, part.loaded, looked_up=part.looked_up, own=part.own)
        intents = [(order[index][1], one, view) for index, one in done.intents]
        idle = [order[step.index][1] for step in done.idle]
        rows = {view.number: FoldedRows(done.rows, frozenset(part.loaded))}
        return [(0, one) for one in done.failures.values()], FoldedBatch({}, intents, idle, rows)

    def _folded_together(
        self, parts: Sequence[ViewBatch], order: Sequence[tuple[int, Delivery]]
    ) -> tuple[list[tuple[int, Failure]], FoldedBatch]:
        """Fold all views of a set: what fails in one of them has happened in none."""
        given = [
            ViewSteps(
                definition=one.view.definition,
                steps=one.steps,
                loaded=one.loaded,
                looked_up=one.looked_up,
                own=one.own,
                kind=one.kind,
            )
            for one in parts
        ]
        done = fold_views(given, alone=self._consumer.sequence == "unordered")
        intents = [(order[index][1], one, parts[at].view) for index, at, one in done.intents]
        idle = [order[index][1] for index in done.idle]
        rows = {
            part.view.number: FoldedRows(changed, frozenset(part.loaded))
            for part, changed in zip(parts, done.rows, strict=True)
        }
        return list(done.failures.values()), FoldedBatch({}, intents, idle, rows)

    async def _decide(self, part: ViewBatch) -> None:
        """Put the aggregate type on record on which this batch has decided: the first, in stream order, of which an
        event was applied."""
        if part.own is None or part.own.decided is None:
            return
        assert part.table is not None, "only rows have keys"
        kind, since = part.own.decided
        if await part.table.own_type(kind, since) != kind:
            raise Again("an event of another type was applied meanwhile")

    async def write(self, folded: FoldedBatch) -> None:
        """Insert, update and delete rows, of one view after the other in the order of their numbers."""
        for number, one in sorted(folded.rows.items()):
            if one.rows and not await self._tables[number].write(one.rows, one.present):
                raise Again("a row that was absent has been written by another batch")


def in_lock_order(parts: Sequence[ViewBatch]) -> list[ViewBatch]:
    """Return the parts in the order in which all processes lock the rows of views, however their classes list them."""
    return sorted(parts, key=lambda part: part.view.number)


def ordered(courses: Sequence[AggregatePlan], broken: dict[int, FailedAt]) -> list[tuple[int, Delivery]]:
    """Return what is tried, with the index of its course: in stream order, as far as aggregates' own allows."""
    ranked: list[tuple[int, int, int, Delivery]] = []
    for index, course in enumerate(courses):
        rank, stop = 0, broken.get(index)
        for delivery in course.tried if stop is None else course.tried[: stop.at]:
            rank = max(rank, delivery.seq)
            ranked.append((rank, len(ranked), index, delivery))
    ranked.sort()
    return [(index, delivery) for _, _, index, delivery in ranked]


def preset(
    courses: Sequence[AggregatePlan], retry: RetryPolicy, refusal: Refusal | None
) -> dict[int, FailedAt]:
    """Return runs that stop before any handler is called: at a body nobody can read, or at what is refused from
    outside."""
    broken: dict[int, FailedAt] = {}
    for index, course in enumerate(courses):
        for at, delivery in enumerate(course.tried):
            problem = None if delivery.discarded else delivery.problem
            why = (
                Refusal(FailureReason.UNREADABLE, problem)
                if refusal is None and problem is not None
                else refusal
            )
            if why is not None and not delivery.discarded:
                broken[index] = FailedAt(at, _after(why.kind, delivery, retry, why.kind, why.text))
                break
    return broken


def failed(failure: Failure, delivery: Delivery, retry: RetryPolicy, view: int | None = None) -> EventFailure:
    """Return what the failure of a handler, of this view, means for its event."""
    kind, error = _KINDS[failure.kind], (failure.error_class, failure.message, failure.stack)
    return msgspec.structs.replace(_after(kind, delivery, retry, *error, failure.after), view=view)


def later(delivery: Delivery, retry: RetryPolicy, why: str) -> EventFailure:
    """Return the failure of an event whose handler has come to no end, which may be what it waits for."""
    return _after(FailureReason.ALONE, delivery, retry, FailureReason.ALONE, why)


_KINDS = {
    FailureKind.RAISED: FailureReason.RAISED,
    FailureKind.RETRY: FailureReason.RETRY,
    FailureKind.REFUSED: FailureReason.REFUSED,
}


def _after(
    kind: FailureReason,
    delivery: Delivery,
    retry: RetryPolicy,
    error_class: str,
    error: str,
    stack: str | None = None,
    asked_s: float | None = None,
) -> EventFailure:
    return next_attempt(
        kind,
        delivery.attempts,
        delivery.budget,
        retry,
        error_class=error_class,
        error=error,
        stack=stack,
        asked_s=asked_s,
        chance=random.random(),  # noqa: S311 - jitter
    )


def step_of(definition: Definition, index: int, delivery: Delivery) -> Step | None:
    """Return the fold's view of a delivery; None for one that no handler declares, or that was decided against."""
    if not is_handled(delivery) or delivery.type not in definition.handlers:
        return None
    return prepared(definition, *occurrence(index, delivery))


def is_handled(delivery: Delivery) -> bool:
    """Return whether handlers may get this delivery: its event was read, and nobody has decided against it."""
    return delivery.event is not None and not delivery.discarded


def occurrence(index: int, delivery: Delivery) -> Occurrence:
    """Take out of a delivery what the steps of all views are made of."""
    event, aggregate = delivery.event, delivery.aggregate
    assert event is not None, "it is handled"
    own = None if aggregate is None else aggregate.partition("/")[2]
    return index, delivery.type, event, delivery.envelope, aggregate or "", own, delivery.version
