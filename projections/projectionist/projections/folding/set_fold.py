"""Fold of a view set: a batch of events over the rows of several views; all of them follow an event, or none. Pure.

Views that look nothing up in each other are folded one after the other, which is the fastest. Where a handler
raises, what other views made of its event and of those behind it must not stand: then, where views do look into each
other, and where no event has decided yet whose ids are keys, all is folded event by event, through all views. There an
event that fails puts back the rows that it met in the views before, and its intents are forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from projectionist.core.user_errors import RAISED, is_ours
from projectionist.outbox.intents.schedule import Emitted
from projectionist.projections.compiled.definition import Definition
from projectionist.projections.folding.failure import Failure, failure_of
from projectionist.projections.folding.fold import FoldResult, KeyOwner, fold, reactor_of
from projectionist.projections.folding.looked_up import LookedUpRows, RowKind
from projectionist.projections.folding.rows import Row, Rows, Undo
from projectionist.projections.folding.step import Step, Unit
from projectionist.projections.reactor_answers import IDLE, HandlerResult


class ViewSteps(msgspec.Struct):
    """The part of one view in a batch."""

    definition: Definition
    steps: Sequence[Step]
    """Of those events that it has a handler for, in their order."""
    loaded: Mapping[Any, Row]
    """The rows that they meet, by key, in database form."""
    looked_up: LookedUpRows | None = None
    own: KeyOwner | None = None
    kind: RowKind | None = None
    """Whose ids its keys are, for views that look up the row of the event's own aggregate."""


class SetFoldResult(msgspec.Struct):
    """The result of a batch for all views."""

    rows: list[dict[Any, Row | None]]
    """For each view, the rows to write, by key; None is a row to delete."""
    intents: list[tuple[int, int, Emitted]]
    """With the index of its step and of the view: in the order of events, and within an event in that of views."""
    failures: dict[Unit, tuple[int, Failure]]
    """With the index of the view whose handler failed."""
    idle: list[int]
    """Events, by the index of their steps, for which no handler of any view ran, because each `when=` said no."""


class _Part:
    """A view in the fold: runs a step, and says what has to be put back if another view cannot follow."""

    def __init__(self, one: ViewSteps) -> None:
        definition = one.definition
        self.name, self.own = definition.name, one.own
        self.found = found = LookedUpRows() if one.looked_up is None else one.looked_up
        self.rows = Rows(definition.cls, definition.table, one.loaded, found) if definition.table else None
        self._react = reactor_of(definition, found) if self.rows is None else None

    def apply(self, step: Step, undo: list[Undo]) -> HandlerResult | None:
        if self.own is not None:
            self.own.check(step)
        if self.rows is not None:
            return self.rows.apply_noting(step, undo)
        assert self._react is not None, "a view without rows reacts"
        return self._react(step)

    def where(self, step: Step) -> str:
        row = "" if self.rows is None else self.rows.where(step.handler)
        return f"{self.name} {row}" if row else self.name


def fold_views(views: Sequence[ViewSteps], *, alone: bool) -> SetFoldResult:
    """Run the steps of all views, in the order of their indices, and of views as given where these are equal.

    An event that fails in one view stops its unit in all of them from there on: its aggregate, or with `alone` itself.
    """
    if any(one.own is not None or one.definition.looks_up for one in views):
        return _by_event(views, alone=alone)
    done: list[FoldResult] = []
    for one in views:
        done.append(fold(one.definition, one.steps, one.loaded, one.looked_up))
        if done[-1].failures:
            return _by_event(views, alone=alone)
    return _joined(views, done)


def _joined(views: Sequence[ViewSteps], done: Sequence[FoldResult]) -> SetFoldResult:
    """Put together what was made in each view by itself, where nothing has failed."""
    intents = [(index, at, emitted) for at, one in enumerate(done) for index, emitted in one.intents]
    intents.sort(key=itemgetter(0, 1))
    idle = Counter(step.index for one in done for step in one.idle)
    met = Counter(step.index for one in views for step in one.steps) if idle else idle
    return SetFoldResult(
        rows=[one.rows for one in done],
        intents=intents,
        failures={},
        idle=sorted(index for index, times in idle.items() if times == met[index]),
    )


def _by_event(views: Sequence[ViewSteps], *, alone: bool) -> SetFoldResult:
    """Run event after event through all views."""
    parts = [_Part(one) for one in views]
    rows = {one.definition: part.rows for one, part in zip(views, parts, strict=True)}
    kinds = {one.definition: one.kind for one in views}
    for one, part in zip(views, parts, strict=True):
        needed = one.definition.looks_up
        part.found.follow(
            {up.source: its for up in needed if (its := rows[up]) is not None},
            {up.source: kind for up in needed if (kind := kinds[up]) is not None},
            is_all=False,
        )
    done = SetFoldResult([], [], {}, [])
    for index, steps in _steps_by_event(views):
        unit: Unit = index if alone else steps[0][1].aggregate
        if unit not in done.failures:
            _apply(index, steps, unit, parts, done)
    done.rows = [{} if part.rows is None else part.rows.changed() for part in parts]
    return done


def _apply(
    index: int, steps: Sequence[tuple[int, Step]], unit: Unit, parts: Sequence[_Part], done: SetFoldResult
) -> None:
    """Run one event through its views; where one cannot follow, leave no trace of it in any of them."""
    undo: list[Undo] = []
    asked: list[tuple[int, int, Emitted]] = []
    ran = False
    at, step = steps[0]
    try:
        for at, step in steps:
            answer = parts[at].apply(step, undo)
            ran = ran or answer is not IDLE
            if answer is not None and answer.intents:
                asked += [(index, at, one) for one in answer.intents]
    except RAISED as error:  # a handler is a user's code: what it raises is its event's failure
        if is_ours(error):
            raise
        for cell, stored in reversed(undo):
            cell.stored, cell.row = stored, None
        done.failures[unit] = at, failure_of(step, error, parts[at].where(step))
        return
    for at, step in steps:
        if (own := parts[at].own) is not None:
            own.applied(step)
    done.intents += asked
    if not ran:
        done.idle.append(index)


def _steps_by_event(views: Sequence[ViewSteps]) -> list[tuple[int, list[tuple[int, Step]]]]:
    events: dict[int, list[tuple[int, Step]]] = {}
    for at, view in enumerate(views):
        for step in view.steps:
            events.setdefault(step.index, []).append((at, step))
    return sorted(events.items())
