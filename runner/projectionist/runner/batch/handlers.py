"""What a consumer's handlers make of a batch, inside its transaction: rows folded in memory, or intents alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from projectionist.projections.folding.failure import FailureKind
from projectionist.projections.folding.fold import FoldResult as FoldedSteps
from projectionist.projections.folding.fold import fold
from projectionist.projections.folding.step import Step, prepared
from projectionist.runner.batch.outcomes import FailedAt
from projectionist.runner.batch.retry_policy import FailureReason, Refusal, next_attempt
from projectionist.runner.batch.row_key_type import OwnType, kind_of, named
from projectionist.runner.batch.wanted_rows import bounded, wanted_rows
from projectionist.runner.batch.writes import Again

if TYPE_CHECKING:
    from projectionist.core.retry_policy import RetryPolicy
    from projectionist.outbox.intents.schedule import Emitted
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.folding.failure import Failure
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.planning import AggregatePlan
    from projectionist.runner.batch.row_table import RowTable
    from projectionist.runner.batch.writes import EventFailure
    from projectionist.runner.decoding.delivery import Delivery


Rows = dict[Any, tuple[Any, ...]]
"""Rows in database form, by key."""


class FoldedBatch(msgspec.Struct):
    """Holds what the handlers made of a batch."""

    broken: dict[int, FailedAt]
    """Where a course's run stopped, by the index of the course."""
    intents: list[tuple[Delivery, Emitted]]
    """Intents that handlers emitted, each with the event it is about."""
    rows: dict[Any, tuple[Any, ...] | None]
    """Touched rows in database form; None: to be deleted."""
    present: frozenset[Any]
    """The keys that the table held when it was read."""
    idle: list[Delivery]
    """Events applied without effect, because their condition did not hold."""


class Model(Protocol):
    """A consumer's handlers and what they write, inside one batch transaction."""

    @property
    def at(self) -> str | None:
        """Return the aggregate, or event without order, whose handler runs, or ran when an error came, if known."""

    async def fold(self, courses: Sequence[AggregatePlan], refusal: Refusal | None) -> FoldedBatch:
        """Read what the handlers need and run them; `refusal` fails the only event instead."""

    async def write(self, folded: FoldedBatch) -> None:
        """Write what they made."""


class PureHandlers:
    """A Projection or Reactor: a pure fold between one read and one write."""

    at: str | None = None

    def __init__(self, consumer: Consumer, rows: RowTable | None) -> None:
        self._consumer = consumer
        self._rows = rows

    async def fold(self, courses: Sequence[AggregatePlan], refusal: Refusal | None) -> FoldedBatch:
        """Read the rows, then run every handler in memory."""
        definition, retry = self._consumer.definition, self._consumer.policy.retry
        broken = preset(courses, retry, refusal)
        order = ordered(courses, broken)
        steps = bounded(
            one for index, (_, d) in enumerate(order) if (one := step_of(definition, index, d)) is not None
        )
        loaded, folded = await self._folded(steps, order)
        for failure in folded.failures.values():
            at, delivery = order[failure.step.index]
            broken[at] = FailedAt(courses[at].tried.index(delivery), failed(failure, delivery, retry))
        intents = [(order[index][1], one) for index, one in folded.intents]
        idle = [order[step.index][1] for step in folded.idle]
        return FoldedBatch(broken, intents, folded.rows, frozenset(loaded), idle)

    async def _folded(
        self, steps: list[Step], order: Sequence[tuple[int, Delivery]]
    ) -> tuple[Rows, FoldedSteps]:
        """Return the rows that the steps need, and what becomes of them."""
        if self._rows is None or not steps:
            return {}, fold(self._consumer.definition, steps, {})
        wanted = wanted_rows(steps)
        wanted.check((), len(steps))
        loaded = await self._rows.load(wanted)
        wanted.check(loaded, len(steps))
        own = self._consumer.view.owned()
        kinds = list(dict.fromkeys(kind_of(step.aggregate) for step in steps if step.handler.own))
        if set(kinds) <= {own.known}:
            return loaded, fold(self._consumer.definition, steps, loaded)
        candidates = kinds if own.known is None else [own.known]
        return loaded, await self._own_folded(self._rows, steps, loaded, candidates, order)

    async def _own_folded(
        self,
        table: RowTable,
        steps: list[Step],
        loaded: Rows,
        candidates: Sequence[str],
        order: Sequence[tuple[int, Delivery]],
    ) -> FoldedSteps:
        """Fold what belongs to the rows' own type: two types never share a row because their ids are alike.

        That is the first, in stream order, of which an event was applied; one that fails decides nothing.
        """
        keys = [step.key for step in steps]
        for kind in candidates:
            own = self._consumer.view.owned()
            if own.known is None:
                first = next(one for one in steps if one.handler.own and kind_of(one.aggregate) == kind)
                own.decide(first.handler, order[first.index][1])
            _refuse_others(steps, keys, own)
            folded = fold(self._consumer.definition, steps, loaded)
            decided = _applied(steps, folded, kind) if self._consumer.view.own_type is None else None
            if decided is not None:
                if await table.own_type(kind, named(order[decided.index][1])) != kind:
                    raise Again("an event of another type was applied meanwhile")
                break
        return folded

    async def write(self, folded: FoldedBatch) -> None:
        """Insert, update and delete rows."""
        if self._rows is not None and folded.rows and not await self._rows.write(folded.rows, folded.present):
            raise Again("a row that was absent has been written by another batch")


def _refuse_others(steps: list[Step], keys: list[Any], own: OwnType) -> None:
    for step, key in zip(steps, keys, strict=True):
        stranger = step.handler.own and kind_of(step.aggregate) != own.known
        step.key = own.refusal(step.aggregate) if stranger else key


def _applied(steps: list[Step], folded: FoldedSteps, own: str) -> Step | None:
    """Return the first event of this type that was applied to a row of its own: a run that fails may have got past
    it."""
    for step in steps:
        if step.handler.own and kind_of(step.aggregate) == own:
            failure = folded.failures.get(step.index) or folded.failures.get(step.aggregate)
            if failure is None or step.index < failure.step.index:
                return step
    return None


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


def failed(failure: Failure, delivery: Delivery, retry: RetryPolicy) -> EventFailure:
    """Return what a handler's failure means for its event."""
    kind = _KINDS[failure.kind]
    return _after(kind, delivery, retry, failure.error_class, failure.message, failure.stack, failure.after)


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
    event, aggregate = delivery.event, delivery.aggregate
    if event is None or delivery.discarded:
        return None
    own = None if aggregate is None else aggregate.partition("/")[2]
    return prepared(
        definition, index, delivery.type, event, delivery.envelope, aggregate or "", own, delivery.version
    )
