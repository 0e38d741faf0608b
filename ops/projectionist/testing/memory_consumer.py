"""A consumer in memory: deliveries in any order and number, planned and folded as the runner does, without servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from datetime import datetime
from inspect import isgenerator
from typing import TYPE_CHECKING, Any, Self

import msgspec

from projectionist.core.states import AggregateState
from projectionist.projections.folding.fold import fold
from projectionist.projections.folding.set_fold import ViewSteps, fold_views
from projectionist.runner.batch.handlers import ordered, step_of
from projectionist.runner.batch.planning import AggregatePlan, LockedPosition, alone, plan_aggregate
from projectionist.runner.batch.row_key_type import OwnType, row_owner
from projectionist.runner.decoding.delivery import Delivery

if TYPE_CHECKING:
    from projectionist.outbox.intents.schedule import Emitted
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.projections.folding.failure import Failure
    from projectionist.projections.folding.rows import Row
    from projectionist.projections.folding.step import Step
    from projectionist.testing.lookup_rows import LookupRows


class FailedAttempt(Exception):
    """What a poisoned event fails with, after its handler has run."""


class MemoryView:
    """One view of a consumer: its rows, and what watches its handlers."""

    def __init__(
        self, definition: Definition, watch: Callable[[Step], Step], lookup_rows: LookupRows
    ) -> None:
        self.definition = definition
        self.lookup_rows = lookup_rows
        self.watch = watch
        """May put another handler into a step."""
        table = definition.table
        self.own = OwnType("" if table is None or table.key is None else table.key.first.name)
        self.rows: dict[Any, Row] = {}
        """In database form, by key."""

    def __copy__(self) -> Self:
        made = type(self)(self.definition, self.watch, self.lookup_rows)
        made.own, made.rows = copy(self.own), dict(self.rows)
        return made

    def steps(self, order: Iterable[tuple[int, Delivery]]) -> list[Step]:
        """Return what the handlers of this view have to do, each with its place in the order."""
        found = ((index, step_of(self.definition, index, one)) for index, one in order)
        return [self.watch(step) for _, step in found if step is not None]

    def keep(self, changed: dict[Any, Row | None]) -> None:
        """Take in what a fold has made of the rows."""
        for key, row in changed.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row


class Waiting(msgspec.Struct):
    """What is known of events beside what they have made."""

    seen: set[tuple[str, str]] = msgspec.field(default_factory=set)
    positions: dict[str, LockedPosition] = msgspec.field(default_factory=dict)
    parked: dict[str, list[Delivery]] = msgspec.field(default_factory=dict)
    stumbled: dict[str, list[Delivery]] = msgspec.field(default_factory=dict)
    """By aggregate, those that were poisoned; of one without order, itself."""

    def __copy__(self) -> Self:
        parked, stumbled = (
            {name: [*some] for name, some in of.items()} for of in (self.parked, self.stumbled)
        )
        return type(self)({*self.seen}, {**self.positions}, parked, stumbled)


class MemoryConsumer:
    """What a consumer's tables would hold: rows, positions, parked events, and the intents it has asked for."""

    def __init__(
        self,
        definition: ConsumerDefinition,
        views: Sequence[MemoryView],
        poisoned: Collection[str] = (),
        waiting: Waiting | None = None,
    ) -> None:
        self._definition = definition
        self.views = list(views)
        self._poisoned = set(poisoned)
        """The ids of events that fail, until `mend`."""
        self._waiting = waiting or Waiting()
        self.intents: list[tuple[str, str, bytes, datetime | None]] = []
        """The event's id, the slot, with the row's key where there are several, and the content of each, and when it is
        to be sent; cancels too."""
        self.failures: dict[str, tuple[str, str]] = {}
        """The class and the message of what a handler raised, by the event's id."""

    def __copy__(self) -> Self:
        views = [copy(view) for view in self.views]
        made = type(self)(self._definition, views, self._poisoned, copy(self._waiting))
        made.intents, made.failures = [*self.intents], {**self.failures}
        return made

    def deliver(self, batch: Sequence[Delivery]) -> None:
        """Settle a batch. What has come before is left out, what is too early waits for what is missing."""
        fresh: dict[str, list[Delivery]] = {}
        for one in batch:
            if (one.source, one.id) not in self._waiting.seen:
                self._waiting.seen.add((one.source, one.id))
                fresh.setdefault(one.aggregate or "", []).append(one)
        if self._definition.sequence == "unordered":
            self._fold([alone(one) for some in fresh.values() for one in some])
        else:
            self._fold([self._plan(name, some) for name, some in fresh.items()])

    def mend(self) -> None:
        """Have what was poisoned fail no more, and try it again, with all that waits behind it."""
        stumbled, self._poisoned, self._waiting.stumbled = self._waiting.stumbled, set(), {}
        if self._definition.sequence == "unordered":
            self._fold([alone(one) for some in stumbled.values() for one in some])
        else:
            self._fold([self._plan(name, [], due=True) for name in stumbled])

    def _plan(self, name: str, fresh: list[Delivery], *, due: bool = False) -> AggregatePlan:
        parked, begin = self._waiting.parked.get(name, []), self._definition.baseline
        first = LockedPosition(aggregate=name, version=begin - 1 if isinstance(begin, int) else 0)
        position, sequence = self._waiting.positions.get(name, first), self._definition.sequence
        if due:
            position = LockedPosition(
                aggregate=name, version=position.version, head=AggregateState.DRAINING, parked=len(parked)
            )
        return plan_aggregate(position, fresh, parked, sequence, due=due, limit=len(parked) + 1)

    def _fold(self, courses: Sequence[AggregatePlan]) -> None:
        order = ordered(courses, {})
        failed: dict[str, Delivery] = {}
        tried: list[tuple[int, Delivery]] = []
        for index, (_, one) in enumerate(order):
            if one.problem is not None:
                self.failures[one.id] = ("EventError", one.problem)
                failed.setdefault(self._unit(one), one)
            elif self._unit(one) not in failed:
                tried.append((index, one))
        for failure in self._folded(order, self._steps(tried)):
            one = order[failure.step.index][1]
            failed[self._unit(one)] = one
            if failure.error_class == FailedAttempt.__name__:
                self._waiting.stumbled.setdefault(self._unit(one), []).append(one)
            else:
                self.failures[one.id] = (failure.error_class, failure.message)
        for course in courses:
            if course.position is not None:
                self._move(course, course.position, failed.get(course.position.aggregate))

    def _steps(self, tried: Sequence[tuple[int, Delivery]]) -> list[list[Step]]:
        """Return the steps of each view; of an event that is poisoned, the last one raises when it is through."""
        steps = [view.steps(tried) for view in self.views]
        last = {step.index: step for some in steps for step in some}
        for index, one in tried:
            if one.id in self._poisoned and index in last:
                last[index].handler = copy(last[index].handler)
                last[index].handler.call = _stumbling(last[index].handler.call)
        return steps

    def _folded(
        self, order: Sequence[tuple[int, Delivery]], steps: Sequence[list[Step]]
    ) -> Iterable[Failure]:
        """Run the steps and keep what they make; what fails in one view has happened in none."""
        if len(self.views) == 1:
            (view,), (only,) = self.views, steps
            found = fold(
                view.definition,
                only,
                view.rows,
                looked_up=view.lookup_rows.of(only),
                own=row_owner(view.own, only, order),
            )
            view.keep(found.rows)
            self._ask((order[at][1], "", made) for at, made in found.intents)
            return found.failures.values()
        parts = [
            ViewSteps(
                definition=view.definition,
                steps=some,
                loaded=view.rows,
                looked_up=view.lookup_rows.of(some),
                own=row_owner(view.own, some, order),
                kind=view.own,
            )
            for view, some in zip(self.views, steps, strict=True)
        ]
        done = fold_views(parts, alone=self._definition.sequence == "unordered")
        for view, rows in zip(self.views, done.rows, strict=True):
            view.keep(rows)
        self._ask(
            (order[index][1], f"of {self.views[at].definition.name}", made)
            for index, at, made in done.intents
        )
        return [failure for _, failure in done.failures.values()]

    def _ask(self, intents: Iterable[tuple[Delivery, str, Emitted]]) -> None:
        for one, where, made in intents:
            slot = made.counted if made.scope is None else f"{made.counted} of row {made.scope}"
            self.intents.append((one.id, f"{slot} {where}".rstrip(), made.body, made.due))

    def _unit(self, one: Delivery) -> str:
        """Return what a failure of this event stops: its aggregate, or without order itself."""
        return one.id if self._definition.sequence == "unordered" else one.aggregate or one.id

    def _move(self, course: AggregatePlan, position: LockedPosition, failed: Delivery | None) -> None:
        """Bring an aggregate to where its run has stopped, and keep what has to wait behind it."""
        name, tried = position.aggregate, list(course.tried)
        done = tried if failed is None else tried[: tried.index(failed)]
        parked = {
            id(one): one for one in (*self._waiting.parked.get(name, ()), *tried[len(done) :], *course.held)
        }
        left = [one for key, one in parked.items() if all(key != id(other) for other in done)]
        for one in left:
            one.parked = True
        self._waiting.parked[name] = sorted(left, key=lambda one: one.version or 0)
        head = AggregateState.GAP if left else AggregateState.CLEAR
        if failed is not None or position.head is AggregateState.WAITING:
            head = AggregateState.WAITING
        version = (done[-1].version or 0) if done else position.version
        self._waiting.positions[name] = LockedPosition(
            aggregate=name, version=version, head=head, parked=len(left)
        )


def _stumbling(call: Callable[..., Any]) -> Callable[..., Any]:
    def stumbling(*given: Any, **looked_up: Any) -> Any:
        answer = call(*given, **looked_up)
        if isgenerator(answer):
            list(answer)
        raise FailedAttempt("poisoned")

    return stumbling
