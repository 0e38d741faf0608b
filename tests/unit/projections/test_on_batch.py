"""`@on_batch`: what its definition refuses, and what a run of events is to a handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.projections.shop import OrderPaid, OrderPlaced

from projectionist.core.errors import DefinitionError
from projectionist.outbox import Intent
from projectionist.projections import (
    Envelope,
    Event,
    EventIntent,
    Events,
    Projection,
    Reactor,
    SqlProjection,
    Tx,
    definition,
    on,
    on_batch,
)
from projectionist.projections.event_batch import asked_of


class Receipt(Intent, provider="email"):
    to: str


class Counted(Event, type="counted", formerly=("tallied",)):
    number: int


class Named(Event, type="named"):
    name: str


def sql(**methods: Any) -> Any:
    """Define a SqlProjection of these methods."""
    return type(
        "Wrong",
        (SqlProjection,),
        {"tables": {"t": "k int"}, "__slots__": (), **methods},
        stream="S",
        subjects="s.{id}",
    )


unchecked: Any = on_batch
typed: Any = on


async def one(self: Any, tx: Tx, event: Any) -> None: ...


async def many(self: Any, tx: Tx, events: Events) -> None: ...


async def wide(self: Any, tx: Tx, events: Events, envelope: Envelope) -> None: ...


async def narrow(self: Any, tx: Tx) -> None: ...


def at_once(self: Any, tx: Tx, events: Events) -> None: ...


async def texts(self: Any, tx: Tx, events: Events) -> str:
    return ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sql(one=on(Counted)(one), many=unchecked(Counted)(many)),
            "handles 'counted' twice, in one and many",
        ),
        (lambda: sql(many=typed(Named)(unchecked(Counted)(one))), r"has @on and @on_batch"),
        (lambda: sql(wide=unchecked(Counted)(wide)), r"A handler of runs takes \(self, tx, events\)"),
        (lambda: sql(narrow=unchecked(Counted)(narrow)), r"A handler of runs takes \(self, tx, events\)"),
        (lambda: sql(at_once=unchecked(Counted)(at_once)), "is not a plain `async def`"),
        (lambda: sql(texts=unchecked(Counted)(texts)), "returns str, which is no answer"),
        (unchecked, "@on_batch names no event"),
        (lambda: unchecked(int), "that is no event with a type"),
        (
            lambda: type(
                "W", (Reactor,), {"__slots__": (), "m": unchecked(Counted)(many)}, stream="S", subjects="s"
            ),
            "W is no SqlProjection",
        ),
    ],
)
def test_what_cannot_be_a_handler_of_runs_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


def test_a_projection_has_no_handler_of_runs() -> None:
    with pytest.raises(DefinitionError, match="the rows of a whole batch are read and written at once"):

        class Wrong(Projection, stream="S", subjects="s.{id}", table="t", key="id"):
            id: str

            @on_batch(OrderPaid)
            async def paid(self, tx: Tx, events: Events[OrderPaid]) -> None: ...


def test_the_intents_of_a_handler_of_runs_are_known_by_its_annotation() -> None:
    class Telling(SqlProjection, stream="S", subjects="s.{id}"):
        tables = {"t": "k int"}

        @on_batch(OrderPaid, OrderPlaced)
        async def told(self, tx: Tx, events: Events[OrderPaid | OrderPlaced]) -> list[EventIntent[Receipt]]:
            return []

    assert definition(Telling).intents == (Receipt,)
    assert {handler.batch for handler in definition(Telling).handlers.values()} == {True}


def run(*events: Any) -> Events[Any]:
    made = [lambda n=n: Envelope(source="/s", id=f"e{n}", type="tallied") for n, _ in enumerate(events)]
    return Events(events, made, [f"o{n}" for n, _ in enumerate(events)], [Counted, Named])


def test_a_run_is_read_by_column_in_its_order() -> None:
    events = run(Counted(1), Named("x"), Counted(2))
    assert events.column("number") == [1, None, 2]
    assert events.column("name") == [None, "x", None]
    assert events.types == ["counted", "named", "counted"]
    assert [one.id for one in events.envelopes] == ["e0", "e1", "e2"]
    assert events.aggregate_ids == ["o0", "o1", "o2"]
    assert list(events) == [Counted(1), Named("x"), Counted(2)]
    assert len(events) == 3


def test_a_field_of_an_event_that_is_not_here_is_empty_and_of_none_is_an_error() -> None:
    """Whatever the cut: a name is right or wrong for the handler, not for some of its runs."""
    assert run(Counted(1)).column("name") == [None]
    with pytest.raises(
        AttributeError, match="no event of this handler has the field 'cents'; they have number, name"
    ):
        run(Counted(1)).column("cents")


def test_intents_are_of_the_event_they_were_asked_for_even_of_equal_ones() -> None:
    same = Counted(1)
    for events in (run(Counted(1), Counted(1)), run(same, same)):
        first, second = events
        answer = [events.intent(second, Receipt("b")), events.intent(first, Receipt("a"))]
        assert asked_of(answer, events) == {0: [Receipt("a")], 1: [Receipt("b")]}


def test_an_intent_of_an_event_of_others_is_refused() -> None:
    with pytest.raises(ValueError, match="pass the very object"):
        run(Counted(1)).intent(Counted(1), Receipt("a"))


@pytest.mark.parametrize("answer", [7, "text", [Receipt("a")], {"a": 1}])
def test_what_is_no_answer_of_a_handler_of_runs_is_an_error(answer: Any) -> None:
    with pytest.raises(TypeError, match="a handler of runs answered with"):
        asked_of(answer, run(Counted(1)))
