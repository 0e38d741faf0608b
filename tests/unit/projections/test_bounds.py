"""Bounds of Decimals: checked wherever a body holds one, told as msgspec tells its own; refused where none is bound."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Generic, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from msgspec import Meta
from pydantic import BaseModel

from projectionist.api import Bounds, Event, EventError, Projection, event, on, upcast
from projectionist.core.errors import DefinitionError
from projectionist.projections.bounds import check_of
from projectionist.projections.event import decode
from projectionist.testing import OldEvent, given

Price = Annotated[Decimal, Bounds(ge=0, lt=Decimal("1000.00"))]
Money = NewType("Money", Decimal)
T = TypeVar("T")


class Rate(msgspec.Struct):
    percent: Annotated[Decimal, Bounds(gt=0, le=100)]
    inner: list[Rate] = []


@dataclass
class Box(Generic[T]):
    inside: T


@dataclass
class Part:
    price: Price


class Size(NamedTuple):
    width: Price


class Extra(TypedDict):
    price: NotRequired[Price]


class Sold(Event, type="it.was.sold", schema=2):
    price: Price
    maybe: Price | None = None
    either: Annotated[Decimal | None, Bounds(ge=1)] = None
    money: Annotated[Money, Bounds(ge=1)] | None = None
    many: list[Price] = []
    several: tuple[Price, ...] = ()
    pair: tuple[Price, int] | None = None
    named: dict[str, Price] = {}
    rates: dict[str, list[Rate]] = {}
    part: Part | None = None
    size: Size | None = None
    extra: Extra | None = None
    pieces: Annotated[int, Meta(ge=1)] = 1


@upcast("it.was.sold", schema=1)
def _priced(document: dict[str, Any]) -> dict[str, Any]:
    return {"price": document["cost"]}


@event(type="it.was.bought")
@dataclass(frozen=True)
class Bought:
    price: Price


class Sales(Projection, stream="S", subjects="s.{id}", table="sales", key="id"):
    id: str
    total: Decimal = Decimal(0)

    @on(Sold, Bought)
    def sold(self, event: Sold | Bought) -> None:
        self.total += event.price


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"price": "-0.01"}, "Expected `Decimal` >= 0 - at `$.price`"),
        ({"price": -1}, "Expected `Decimal` >= 0 - at `$.price`"),
        ({"price": "1000"}, "Expected `Decimal` < 1000.00 - at `$.price`"),
        ({"price": "NaN"}, "Expected `Decimal` >= 0 - at `$.price`"),
        ({"price": "Infinity"}, "Expected `Decimal` >= 0 - at `$.price`"),
        ({"maybe": "-1"}, "at `$.maybe`"),
        ({"either": 0}, "Expected `Decimal` >= 1 - at `$.either`"),
        ({"money": 0}, "at `$.money`"),
        ({"many": [1, -1]}, "at `$.many[...]`"),
        ({"several": [-1]}, "at `$.several[...]`"),
        ({"pair": [-1, 1]}, "at `$.pair[0]`"),
        ({"named": {"a": -1}}, "at `$.named[...]`"),
        ({"rates": {"a": [{"percent": 101}]}}, "Expected `Decimal` <= 100 - at `$.rates[...][...].percent`"),
        (
            {"rates": {"a": [{"percent": 1, "inner": [{"percent": 0}]}]}},
            "at `$.rates[...][...].inner[...].percent`",
        ),
        ({"part": {"price": -1}}, "at `$.part.price`"),
        ({"size": [-1]}, "at `$.size.width`"),
        ({"extra": {"price": -1}}, "at `$.extra.price`"),
        ({"pieces": 0}, "Expected `int` >= 1 - at `$.pieces`"),
    ],
)
def test_a_value_outside_fails_the_event_and_names_the_place(body: dict[str, Any], place: str) -> None:
    data = msgspec.json.encode({"price": 1} | body)
    with pytest.raises(EventError) as failed:
        decode(Sold, "it.was.sold", 2, data)
    assert place in str(failed.value)


def test_values_inside_are_read_as_they_are() -> None:
    body = {
        "price": "999.99",
        "maybe": None,
        "either": 1,
        "many": [0],
        "pair": [0, -5],
        "extra": {},
        "named": {"a": "0.00"},
        "rates": {"a": [{"percent": 100, "inner": []}]},
        "part": {"price": 0},
        "size": [0],
        "money": "1",
    }
    found: Any = decode(Sold, "it.was.sold", 2, msgspec.json.encode(body))
    assert (found.price, found.pair, found.extra) == (Decimal("999.99"), (Decimal(0), -5), {})


@for_all(st.decimals(allow_nan=False, allow_infinity=False))
def test_exactly_what_is_inside_is_read(price: Decimal) -> None:
    data = msgspec.json.encode({"price": price})
    if 0 <= price < 1000:
        assert decode(Bought, "it.was.bought", 1, data) == Bought(price)
    else:
        with pytest.raises(EventError):
            decode(Bought, "it.was.bought", 1, data)


def test_upcasts_handlers_and_given_meet_the_same_bounds() -> None:
    story = given(Sales).when("s/1", OldEvent("it.was.sold", {"cost": "2.50"}), Bought(Decimal(1)))
    assert story.row("1").total == Decimal("3.50")
    story.when("s/1", OldEvent("it.was.sold", {"cost": "-2.50"}), Bought(Decimal(1)))
    (told,) = story.failed
    assert "Expected `Decimal` >= 0 - at `$.price`" in told
    assert story.skipped == ["behind a failed event"]


def test_a_class_without_bounds_costs_no_check() -> None:
    class Plain(Event, type="it.is.plain"):
        price: Decimal
        rates: list[Part | None] | None = None

    class Bare(Event, type="it.is.bare"):
        price: Decimal

    assert check_of(Bare) is None
    assert check_of(Plain) is not None


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (Bounds, "bounds nothing"),
        (lambda: Bounds(ge=0.1), r'ge=Decimal\("0.01"\)'),  # type: ignore[arg-type]  # what a user may write
        (lambda: Bounds(lt=True), "lt=True"),
        (lambda: Bounds(lt=Decimal("NaN")), "NaN"),
    ],
)
def test_bounds_that_bound_nothing_are_refused(wrong: Any, complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        wrong()


def test_bounds_in_a_place_where_they_are_not_checked_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Wrong\.count has Bounds and is no Decimal.*msgspec\.Meta"):

        class Wrong(Event, type="wrong.count"):
            count: Annotated[int, Bounds(ge=0)]

    with pytest.raises(DefinitionError, match=r"Keys\.by has Bounds where they cannot be checked"):

        class Keys(Event, type="wrong.keys"):
            by: dict[Price, int]

    with pytest.raises(DefinitionError, match=r"Write Annotated\[Decimal, Field"):

        class Model(BaseModel):
            price: Price


def test_bounds_given_to_a_generic_base_are_refused() -> None:
    class Priced(msgspec.Struct, Generic[T]):
        price: T

    class Fare(Priced[Annotated[Decimal, Bounds(ge=0)]]):
        currency: str

    with pytest.raises(DefinitionError, match=r"Fare has Bounds where they cannot be checked"):
        check_of(Fare)
    assert check_of(Priced) is None
    with pytest.raises(DefinitionError, match=r"Lot has Bounds where they cannot be checked"):

        @event(type="generic.lot")
        @dataclass
        class Lot(Box[list[Price]]):
            name: str = ""
