"""Fold: a batch of events over the rows they meet, in memory. Pure: its arguments are never changed.

A row is kept as a tuple in database form and handed to each handler as an instance. After every handler the
changed columns are brought into database form, so that the next handler sees what PostgreSQL would give back.
Tuples do not change, so the row from before a handler is still there when it raises: its instance is dropped,
with the intents it made, and nothing else has seen either. A step has one row, documents are decoded anew
and events that hold lists are copied for each handler: no two steps share anything that can change. So one
pass is enough, where shared instances would have to be folded again from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from projectionist.core.user_errors import RAISED, is_ours
from projectionist.outbox.intents.schedule import Emitted
from projectionist.projections.compiled.definition import Definition, Kind
from projectionist.projections.copying import copied
from projectionist.projections.folding.failure import Failure, failure_of
from projectionist.projections.folding.looked_up import NOTHING, LookedUpRows
from projectionist.projections.folding.rows import Row, Rows
from projectionist.projections.folding.step import Step, Unit
from projectionist.projections.reactor_answers import IDLE, HandlerResult, answer_of


class FoldResult(msgspec.Struct):
    """The result of a batch."""

    rows: dict[Any, Row | None]
    """The rows to write, by key, in database form; None is a row to delete."""
    intents: list[tuple[int, Emitted]]
    """With the index of its step: in the order of steps, and within a step in the order its handler gave them."""
    failures: dict[Unit, Failure]
    idle: list[Step]
    """Those that were applied without effect, because their `when=` said no."""


class KeyOwner(Protocol):
    """Follows whose ids are keys of the rows: of two types of aggregates one alone."""

    def check(self, step: Step) -> None:
        """Raise BadValue where the step is of another aggregate type, and its id would be the key."""

    def applied(self, step: Step) -> None:
        """Note that the step was applied: the first one decides."""


def fold(
    definition: Definition,
    steps: Sequence[Step],
    loaded: Mapping[Any, Row],
    looked_up: LookedUpRows | None = None,
    own: KeyOwner | None = None,
) -> FoldResult:
    """Run `steps` in their order over `loaded` rows (by key, in database form; absent keys are absent rows).

    A step that fails stops its unit from there on: its aggregate, or itself alone where the definition is
    unordered. `looked_up` holds what the steps look up.
    """
    looked_up = LookedUpRows() if looked_up is None else looked_up
    rows = Rows(definition.cls, definition.table, loaded, looked_up) if definition.table else None
    apply = reactor_of(definition, looked_up) if rows is None else rows.apply
    alone = definition.sequence == "unordered"
    failures: dict[Unit, Failure] = {}
    intents: list[tuple[int, Emitted]] = []
    idle: list[Step] = []
    for step in steps:
        if failures and (step.index if alone else step.aggregate) in failures:
            continue
        try:
            if own is not None:
                own.check(step)
            answer = apply(step)
        except RAISED as error:  # a handler is a user's code: what it raises is its event's failure
            if is_ours(error):
                raise
            unit = step.index if alone else step.aggregate
            failures[unit] = failure_of(step, error, "" if rows is None else rows.where(step.handler))
            continue
        if own is not None:
            own.applied(step)
        if answer is IDLE:
            idle.append(step)
        elif answer is not None:
            intents.extend((step.index, one) for one in answer.intents)
    return FoldResult(rows.changed() if rows else {}, intents, failures, idle)


def reactor_of(definition: Definition, looked_up: LookedUpRows) -> Callable[[Step], HandlerResult | None]:
    """Return what runs the handlers of a Reactor."""
    if definition.kind is not Kind.REACTOR:
        raise ValueError(f"{definition.name} is a SqlProjection: its handlers need the open transaction")
    reactor = definition.cls()

    def apply(step: Step) -> HandlerResult | None:
        handler = step.handler
        event = copied(step.event) if handler.copies else step.event
        if handler.when is not None and not handler.holds(reactor, event, step.envelope):
            return IDLE
        given = looked_up.given(handler, step.event, step.envelope) if handler.asks else NOTHING
        result = handler.run(reactor, event, step.envelope, given)
        if result is None:
            return None
        answer = answer_of(result, step.envelope, ordered=handler.ordered)
        if answer.delete:
            raise TypeError("a Reactor has no row to delete: return Intents or nothing")
        return answer

    return apply
