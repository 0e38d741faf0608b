"""A consumer in memory: deliveries in any order and number, planned and folded as the runner does, without servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from projectionist.core.states import AggregateState
from projectionist.projections.errors import BadValue
from projectionist.projections.folding.fold import fold
from projectionist.runner.batch.handlers import ordered, step_of
from projectionist.runner.batch.planning import AggregatePlan, LockedPosition, alone, plan_aggregate
from projectionist.runner.batch.row_key_type import OwnType

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.folding.rows import Row
    from projectionist.projections.folding.step import Step
    from projectionist.runner.decoding.delivery import Delivery
    from projectionist.testing.lookup_rows import LookupRows


class MemoryConsumer:
    """What a consumer's tables would hold: rows, positions, parked events, and the intents it has asked for."""

    def __init__(
        self, definition: Definition, watch: Callable[[Step], Step], lookup_rows: LookupRows
    ) -> None:
        self._definition = definition
        self._lookup_rows = lookup_rows
        self._watch = watch
        """May put another handler into a step."""
        table = definition.table
        self._own = OwnType("" if table is None or table.key is None else table.key.first.name)
        self._seen: set[tuple[str, str]] = set()
        self._positions: dict[str, LockedPosition] = {}
        self._parked: dict[str, list[Delivery]] = {}
        self.rows: dict[Any, Row] = {}
        """In database form, by key."""
        self.intents: list[tuple[str, str, bytes, datetime | None]] = []
        """The event's id, the slot, with the row's key where there are several, and the content of each, and when it is
        to be sent; cancels too."""
        self.failures: dict[str, tuple[str, str]] = {}
        """The class and the message of what a handler raised, by the event's id."""

    def deliver(self, batch: Sequence[Delivery]) -> None:
        """Settle a batch. What has come before is left out, what is too early waits for what is missing."""
        fresh: dict[str, list[Delivery]] = {}
        for one in batch:
            if (one.source, one.id) not in self._seen:
                self._seen.add((one.source, one.id))
                fresh.setdefault(one.aggregate or "", []).append(one)
        if self._definition.sequence == "unordered":
            self._fold([alone(one) for some in fresh.values() for one in some])
        else:
            self._fold([self._plan(name, some) for name, some in fresh.items()])

    def _plan(self, name: str, fresh: list[Delivery]) -> AggregatePlan:
        parked, begin = self._parked.get(name, []), self._definition.baseline
        first = LockedPosition(aggregate=name, version=begin - 1 if isinstance(begin, int) else 0)
        position, sequence = self._positions.get(name, first), self._definition.sequence
        return plan_aggregate(position, fresh, parked, sequence, due=False, limit=len(parked) + 1)

    def _fold(self, courses: Sequence[AggregatePlan]) -> None:
        order = ordered(courses, {})
        failed: dict[str, Delivery] = {}
        steps: list[Step] = []
        for index, (_, one) in enumerate(order):
            if one.problem is not None:
                self.failures[one.id] = ("EventError", one.problem)
                failed.setdefault(one.aggregate or one.id, one)
            elif (one.aggregate or one.id) not in failed and (step := step_of(self._definition, index, one)):
                steps.append(self._owned(step, one))
        folded = fold(self._definition, steps, self.rows, looked_up=self._lookup_rows.of(steps))
        for failure in folded.failures.values():
            one = order[failure.step.index][1]
            self.failures[one.id] = (failure.error_class, failure.message)
            failed[one.aggregate or one.id] = one
        for at, made in folded.intents:
            slot = made.counted if made.scope is None else f"{made.counted} of row {made.scope}"
            self.intents.append((order[at][1].id, slot, made.body, made.due))
        for key, row in folded.rows.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row
        for course in courses:
            if course.position is not None:
                self._move(course, course.position, failed.get(course.position.aggregate))

    def _owned(self, step: Step, delivery: Delivery) -> Step:
        try:
            self._own.check(step.handler, delivery.aggregate)
        except BadValue as bad:
            step.key = bad
        else:
            self._own.decide(step.handler, delivery)
        return self._watch(step)

    def _move(self, course: AggregatePlan, position: LockedPosition, failed: Delivery | None) -> None:
        """Bring an aggregate to where its run has stopped, and keep what has to wait behind it."""
        name, tried = position.aggregate, list(course.tried)
        done = tried if failed is None else tried[: tried.index(failed)]
        parked = {id(one): one for one in (*self._parked.get(name, ()), *tried[len(done) :], *course.held)}
        left = [one for key, one in parked.items() if all(key != id(other) for other in done)]
        for one in left:
            one.parked = True
        self._parked[name] = sorted(left, key=lambda one: one.version or 0)
        head = AggregateState.GAP if left else AggregateState.CLEAR
        if failed is not None or position.head is AggregateState.WAITING:
            head = AggregateState.WAITING
        version = (done[-1].version or 0) if done else position.version
        self._positions[name] = LockedPosition(aggregate=name, version=version, head=head, parked=len(left))
