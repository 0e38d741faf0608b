"""The fold: what one batch comes to, and that failures leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.projections.folding import folded, steps_of
from tests.unit.projections.shop import (
    CustomerSpend,
    FirstOrder,
    OrderForgotten,
    OrderPaid,
    OrderPlaced,
    OrderShipped,
    OrderSummary,
    Totals,
    Welcome,
)

from projectionist.outbox import Intent
from projectionist.projections import Event, Projection, Reactor, definition, on
from projectionist.projections.folding.failure import FailureKind, failure_of
from projectionist.projections.folding.fold import fold


class NotThere(Exception):
    """What a handler of a user raises."""


def placed(number: int, cents: int = 100, customer: str = "ann") -> tuple[str, Event]:
    return f"o-{number}", OrderPlaced(f"o-{number}", customer, f"{customer}@example.org", cents)


def test_an_absent_row_starts_from_its_key_and_the_defaults() -> None:
    result = folded(OrderSummary, ("o-1", OrderPaid("o-1")))
    assert result.rows == {"o-1": ("o-1", "", 0, "paid", "[]")}


def test_later_events_of_a_batch_see_what_earlier_ones_wrote() -> None:
    result = folded(CustomerSpend, placed(1, 10), placed(2, 20), placed(3, 5, "bob"))
    assert result.rows == {"ann": ("ann", 2, 30), "bob": ("bob", 1, 5)}


def test_a_loaded_row_is_where_the_fold_goes_on_and_stays_untouched() -> None:
    loaded = {"ann": ("ann", 7, 700)}
    result = folded(CustomerSpend, placed(1, 10), loaded=loaded)
    assert result.rows == {"ann": ("ann", 8, 710)}
    assert loaded == {"ann": ("ann", 7, 700)}


def test_a_row_no_handler_changed_is_not_written() -> None:
    class Looked(
        Projection, stream="S", subjects="s.{aggregate}", table="looked", key="order_id", name="looked"
    ):
        order_id: str
        documents: list[str] = []

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            self.documents = list(self.documents)

    assert folded(Looked, ("o-1", OrderPaid("o-1")), loaded={"o-1": ("o-1", '["a"]')}).rows == {}


def test_an_intent_carries_its_slot_and_its_frozen_content() -> None:
    ((index, emitted),) = folded(OrderSummary, placed(1), ("o-1", OrderPaid("o-1"))).intents
    assert (emitted.slot, index) == ("Receipt", 1)
    assert emitted.body == b'{"order_id":"o-1","to":"ann@example.org"}'


def test_a_deleted_row_is_gone_and_a_later_event_recreates_it_from_the_defaults() -> None:
    forgotten = ("o-1", OrderForgotten("o-1"))
    loaded = {"o-1": ("o-1", "ann@example.org", 5, "placed", '["p"]')}
    assert folded(OrderSummary, forgotten, loaded=loaded).rows == {"o-1": None}
    again = folded(OrderSummary, forgotten, ("o-1", OrderPaid("o-1")), loaded=loaded)
    assert again.rows == {"o-1": ("o-1", "", 0, "paid", "[]")}


def test_deleting_a_row_that_never_was_writes_nothing() -> None:
    assert folded(OrderSummary, placed(1), ("o-1", OrderForgotten("o-1"))).rows == {}


def test_a_generator_yields_several_intents_under_their_slots() -> None:
    result = folded(OrderSummary, placed(1), ("o-1", OrderShipped("o-1", ["p-1"])))
    assert [emitted.slot for _, emitted in result.intents] == ["Receipt", "warehouse"]
    assert result.rows["o-1"] == ("o-1", "ann@example.org", 100, "placed", '["p-1"]')


def test_a_handler_that_raises_stops_its_aggregate_from_there_on_and_nobody_else() -> None:
    result = folded(
        OrderSummary, placed(1), placed(2, -1), ("o-2", OrderPaid("o-2")), ("o-1", OrderPaid("o-1"))
    )
    assert list(result.failures) == ["/o-2"]
    failure = result.failures["/o-2"]
    assert (failure.kind, failure.error_class, failure.message) == (
        FailureKind.RAISED,
        "ValueError",
        "a negative total",
    )
    assert "in placed" in failure.stack
    assert failure.step.index == 1
    assert list(result.rows) == ["o-1"]
    assert len(result.intents) == 1


def test_a_failed_step_leaves_no_dirt_in_the_row_the_event_or_the_intents() -> None:
    shipped = OrderShipped("o-1", ["p-1"])
    loaded = {"o-1": ("o-1", "", 5, "placed", "[]")}
    result = folded(OrderSummary, ("o-1", shipped), loaded=loaded)
    assert result.failures["/o-1"].kind is FailureKind.REFUSED
    assert (result.rows, result.intents) == ({}, [])
    assert shipped.parcels == ["p-1"]


def test_an_error_of_ours_is_named_without_its_module_and_one_of_others_with_it() -> None:
    (failure,) = folded(OrderSummary, placed(1, 2**70)).failures.values()
    assert failure.error_class == "BadValue"
    assert failure_of(failure.step, NotThere()).error_class == f"{__name__}.NotThere"


def test_a_failure_on_a_shared_row_takes_nothing_of_its_batch_mates_along() -> None:
    result = folded(CustomerSpend, placed(1, 10), placed(2, 13), placed(3, 30))
    assert result.rows == {"ann": ("ann", 2, 40)}
    failure = result.failures["/o-2"]
    assert (failure.kind, failure.after, failure.message) == (FailureKind.RETRY, 2.5, "unlucky")


def test_a_condition_that_does_not_hold_changes_nothing_and_is_counted() -> None:
    result = folded(FirstOrder, placed(1), placed(2), placed(3, customer="bob"))
    assert result.rows == {"ann": ("ann", "o-1"), "bob": ("bob", "o-3")}
    assert (len(result.idle), result.failures) == (1, {})
    kept = folded(FirstOrder, placed(4), loaded={"ann": ("ann", "o-1")})
    assert (kept.rows, len(kept.idle)) == ({}, 1)


def test_a_condition_that_writes_leaves_no_trace() -> None:
    def meddles(row: Any, event: object) -> bool:
        row.order_id = "changed"
        return False

    class Meddled(Projection, stream="S", subjects="s.{aggregate}", table="meddled", key="customer"):
        customer: str
        order_id: str = ""

        @on(OrderPlaced, key="customer", when=meddles)
        def placed(self, event: OrderPlaced) -> None: ...

        @on(OrderPaid, key=lambda event: "ann")
        def paid(self, event: OrderPaid) -> None: ...

    result = folded(Meddled, placed(1), ("o-1", OrderPaid("o-1")))
    assert result.rows == {"ann": ("ann", "")}


def test_a_reactor_has_intents_and_no_rows() -> None:
    result = folded(Welcome, placed(1), placed(2, 0))
    assert result.rows == {}
    assert [one.intent.to for _, one in result.intents if hasattr(one.intent, "to")] == ["ann@example.org"]
    assert len(result.idle) == 1


def test_a_reactor_that_keeps_state_fails_its_event() -> None:
    class Counting(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            self.count = 1

    assert "one instance serves every event" in folded(Counting, ("o", OrderPaid("o"))).failures["/o"].message


def test_a_sql_projection_is_not_folded() -> None:
    with pytest.raises(ValueError, match="open transaction"):
        fold(definition(Totals), [], {})


def test_an_event_whose_field_contradicts_its_aggregate_fails() -> None:
    result = folded(OrderSummary, ("o-2", OrderPaid("o-1")))
    assert "another value in the event than the aggregate's id" in result.failures["/o-2"].message
    assert result.rows == {}


def test_a_handler_cannot_change_the_key_of_its_row() -> None:
    class Moving(Projection, stream="S", subjects="s.{aggregate}", table="moving", key="order_id"):
        order_id: str

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            self.order_id = "elsewhere"

    assert "a handler changed it" in folded(Moving, ("o-1", OrderPaid("o-1"))).failures["/o-1"].message


def test_without_order_a_failure_stops_its_own_event_alone() -> None:
    class Loose(
        Projection,
        stream="S",
        subjects="s.{aggregate}",
        table="loose",
        key="order_id",
        sequence="unordered",
    ):
        order_id: str
        total: int = 0

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            if event.total_cents < 0:
                raise ValueError
            self.total += event.total_cents

    events = [("o-1", OrderPlaced("o-1", "a", "e", cents)) for cents in (1, -1, 2)]
    result = folded(Loose, *events)
    assert list(result.failures) == [1]
    assert result.rows == {"o-1": ("o-1", 3)}


@pytest.mark.parametrize("error", [RecursionError, MemoryError, StopIteration, AssertionError])
def test_whatever_a_handler_raises_is_the_failure_of_its_event(error: type[Exception]) -> None:
    class Raising(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            raise error

    assert folded(Raising, ("o", OrderPaid("o"))).failures["/o"].error_class == error.__name__


def ending(error: type[BaseException]) -> type[Reactor]:
    class Ending(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            raise error

    return Ending


def test_what_a_person_ends_the_process_with_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        folded(ending(KeyboardInterrupt), ("o", OrderPaid("o")))


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
def test_a_handler_ends_neither_its_task_nor_the_process(error: type[BaseException]) -> None:
    failure = folded(ending(error), ("o", OrderPaid("o"))).failures["/o"]
    assert failure.error_class.endswith(error.__name__)


def test_an_exception_that_cannot_be_shown_is_recorded_all_the_same() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    class Raising(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            raise SilentError

    failure = folded(Raising, ("o", OrderPaid("o"))).failures["/o"]
    assert failure.message == "(its message cannot be shown)"


def test_a_message_that_postgresql_would_refuse_is_escaped() -> None:
    class Raising(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            raise ValueError("nul \0 and \ud800" + "x" * 5_000)

    message = folded(Raising, ("o", OrderPaid("o"))).failures["/o"].message
    assert message.startswith("nul \\0 and \\ud800xxx")
    assert len(message) < 1_100


class Note(Intent, provider="email"):
    weight: float = 0.0
    lines: list[str] = []


def reacting(answer: Any) -> type[Reactor]:
    class Reacting(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> Any:
            return answer

    return Reacting


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ([Note(), Note()], r"two intents in slot 'Note'.*\.slot\(\"second\"\)"),
        ([Note().slot("a"), Note().slot("a")], "two intents in slot 'a'"),
        ("a text", "answered with a str"),
        ({"a": 1}, "answered with a dict"),
        (7, "answered with a int"),
        ([Note(), 7], "answered with a int"),
        (Note(weight=float("nan")), "number that JSON does not know"),
        (Note(lines=["\ud800"]), "cannot be written as JSON"),
    ],
)
def test_an_answer_that_is_none_fails_its_event_and_keeps_no_intent(answer: Any, complaint: str) -> None:
    result = folded(reacting(answer), ("o", OrderPaid("o")))
    assert result.intents == []
    with pytest.raises(AssertionError, match=complaint):
        raise AssertionError(result.failures["/o"].message)


@pytest.mark.parametrize("answer", [None, [], [None], (), iter([Note()]), [[Note()], None]])
def test_nothing_and_nested_iterables_are_answers(answer: Any) -> None:
    assert folded(reacting(answer), ("o", OrderPaid("o"))).failures == {}


def test_an_intent_holds_what_it_held_when_it_was_yielded() -> None:
    class Growing(Projection, stream="S", subjects="s.{aggregate}", table="growing", key="order_id"):
        order_id: str
        lines: list[str] = []

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> Iterator[Note]:
            self.lines.append("one")
            yield Note(lines=self.lines)
            self.lines.append("two")

    result = folded(Growing, ("o", OrderPaid("o")), ("o", OrderPaid("o")))
    assert result.rows == {"o": ("o", '["one", "two", "one", "two"]')}
    assert [emitted.body for _, emitted in result.intents] == [
        b'{"lines":["one"],"weight":0.0}',
        b'{"lines":["one","two","one"],"weight":0.0}',
    ]


def test_the_same_steps_fold_to_the_same_result_again() -> None:
    steps = steps_of(
        OrderSummary, [placed(1), ("o-1", OrderShipped("o-1", ["p"])), ("o-1", OrderPaid("o-1"))]
    )
    assert fold(definition(OrderSummary), steps, {}) == fold(definition(OrderSummary), steps, {})
