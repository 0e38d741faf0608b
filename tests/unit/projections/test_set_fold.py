"""The fold of a set: all views follow an event, or none."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.support.servers import Stream
from tests.support.view_sets import Cancelled, Folded, Happened, Paid, Placed, folded, view_set

from projectionist.outbox.intents.intent import EmittedIntent
from projectionist.projections import Envelope, Event
from projectionist.projections.compiled.definition import Definition, consumer_definition
from projectionist.projections.event import type_of
from projectionist.projections.folding.fold import KeyOwner, fold
from projectionist.projections.folding.set_fold import SetFoldResult, ViewSteps, fold_views
from projectionist.projections.folding.step import Step, prepared

SHOP = view_set(Stream("SHOP"))
SUMMARY, LINES, SPEND, RECEIPTS = consumer_definition(SHOP.Shop).views
BAD_LINE, BAD_RECEIPT = Placed("ann", (1, -1)), Paid(0)
EVENTS = st.one_of(
    st.builds(Placed, st.sampled_from(["ann", "bob"]), st.lists(st.integers(-1, 9), max_size=3).map(tuple)),
    st.builds(Paid, st.integers(0, 3)),
    st.just(Cancelled()),
)
GOOD_EVENTS = st.one_of(
    st.builds(Placed, st.sampled_from(["ann", "bob"]), st.lists(st.integers(0, 9), max_size=3).map(tuple)),
    st.builds(Paid, st.integers(1, 3)),
    st.just(Cancelled()),
)
ORDERS = st.sampled_from(["o1", "o2", "o3"])
HISTORIES = st.lists(st.tuples(ORDERS, EVENTS), max_size=20)


class AnyOwner:
    """Lets aggregates of every type have rows."""

    def check(self, step: Step) -> None:
        """Refuse nothing."""

    def applied(self, step: Step) -> None:
        """Decide nothing."""


def steps_of(view: Definition, events: Sequence[tuple[str, Event]]) -> list[Step]:
    """The steps of the events that the view has a handler for."""
    envelope = Envelope(source="test", id="e", type="")
    return [
        prepared(view, at, kind, event, lambda: envelope, f"order/{name}", name, at)
        for at, (name, event) in enumerate(events)
        if (kind := str(type_of(type(event)))) in view.handlers
    ]


def run(
    events: Sequence[tuple[str, Event]],
    *,
    views: Sequence[Definition] = (),
    alone: bool = False,
    own: KeyOwner | None = None,
) -> SetFoldResult:
    """Fold these events through the views, beginning with empty tables."""
    parts = [
        ViewSteps(definition=view, steps=steps_of(view, events), loaded={}, own=own)
        for view in views or (SUMMARY, LINES, SPEND, RECEIPTS)
    ]
    return fold_views(parts, alone=alone)


def tables(found: SetFoldResult) -> Folded:
    """What the tables hold then."""
    summary, lines, spend = (
        sorted(row for row in rows.values() if row is not None) for rows in found.rows[:3]
    )
    return Folded(summary, lines, spend, [])


def numbered(events: Sequence[tuple[str, Event]]) -> list[Happened]:
    """The same, with versions."""
    return [(name, at, event) for at, (name, event) in enumerate(events)]


@given(HISTORIES)
def test_a_set_equals_a_fold_in_plain_python(events: list[tuple[str, Event]]) -> None:
    expected, found = folded(numbered(events)), run(events)

    assert tables(found) == expected._replace(receipts=[])
    asked = [
        (events[index][0], one.body) for index, _, one in found.intents if isinstance(one, EmittedIntent)
    ]
    assert sorted((name, json.loads(body)["cents"]) for name, body in asked) == expected.receipts


@given(HISTORIES)
def test_a_set_of_one_view_equals_the_view_alone(events: list[tuple[str, Event]]) -> None:
    for view in (LINES, SPEND):
        alone, set_of_one = fold(view, steps_of(view, events), {}), run(events, views=[view])
        assert set_of_one.rows == [alone.rows]
        assert {unit: one.step.index for unit, one in alone.failures.items()} == {
            unit: one.step.index for unit, (_, one) in set_of_one.failures.items()
        }


@given(st.lists(st.tuples(ORDERS, GOOD_EVENTS), max_size=20), st.lists(st.tuples(ORDERS, EVENTS), max_size=2))
def test_view_after_view_equals_event_by_event(
    good: list[tuple[str, Event]], more: list[tuple[str, Event]]
) -> None:
    """Whoever has yet to decide whose ids are keys has all views folded event by event."""
    for events in (good, good + more):
        found, by_event = run(events), run(events, own=AnyOwner())
        assert (found.rows, found.idle) == (by_event.rows, by_event.idle)
        asked = [(index, at, one.intent) for index, at, one in found.intents]
        assert asked == [(index, at, one.intent) for index, at, one in by_event.intents]
        assert found.failures.keys() == by_event.failures.keys()


@given(HISTORIES, st.permutations([0, 1, 2, 3]))
def test_the_order_of_views_changes_no_row(events: list[tuple[str, Event]], order: list[int]) -> None:
    views = [SUMMARY, LINES, SPEND, RECEIPTS]
    listed, other = run(events), run(events, views=[views[at] for at in order])
    assert [other.rows[order.index(at)] for at in range(4)] == listed.rows
    assert other.failures.keys() == listed.failures.keys()


def test_a_failing_view_leaves_no_trace_in_the_others() -> None:
    before: list[tuple[str, Event]] = [("o1", Placed("ann", (5,))), ("o2", Placed("bob", (2, 3)))]
    for bad in (BAD_LINE, BAD_RECEIPT):
        found = run([*before, ("o1", bad), ("o1", Paid(7)), ("o2", Paid(2))])
        without = run([*before, ("o2", Paid(2))])
        assert found.rows == without.rows
        assert [one.intent for _, _, one in found.intents] == [one.intent for _, _, one in without.intents]
        assert list(found.failures) == ["order/o1"], "its followers wait in all views"


def test_the_failure_tells_its_view_and_its_row() -> None:
    (line,) = run([("o1", BAD_LINE)]).failures.values()
    (receipt,) = run([("o1", BAD_RECEIPT)]).failures.values()
    assert (line[0], line[1].message) == (1, 'Lines row ["o1",1]: less than nothing')
    assert (receipt[0], receipt[1].message) == (3, "Receipts: nothing was paid")


def test_without_order_an_event_fails_for_itself() -> None:
    found = run([("o1", BAD_LINE), ("o1", Placed("ann", (4,)))], alone=True)
    assert list(found.failures) == [0]
    assert tables(found).lines == [("o1", 0, 4)]


def test_a_row_that_two_events_of_a_batch_meet_is_put_back_before_the_next() -> None:
    """The first raises a customer's sum, the second fails behind that, the third adds to it."""
    found = run([("o1", Placed("ann", (1,))), ("o2", BAD_LINE), ("o3", Placed("ann", (5,)))])
    assert tables(found).spend == [("ann", 2, 6)]
