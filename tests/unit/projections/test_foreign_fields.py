"""Dataclasses and Pydantic models as fields of events: read, written, copied, and refused like any other field."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel, Field
from tests.unit.projections.folding import folded

from projectionist.core.errors import DefinitionError
from projectionist.outbox import Intent, frozen_body
from projectionist.projections import Event, EventError, Projection, Reactor, definition, on
from projectionist.projections.event import decode


class Parcel(BaseModel):
    sku: str
    price: Annotated[Decimal, Field(ge=0)]
    notes: list[str] = []


@dataclasses.dataclass
class Place:
    street: str
    floors: list[int] = dataclasses.field(default_factory=list)


class Ordered(Event, type="it.was.ordered"):
    parcels: list[Parcel]
    place: Place
    first: Parcel | None = None


class Told(Intent, provider="log"):
    parcel: Parcel


class Weighed(BaseModel):
    grams: float


class Weight(Intent, provider="log"):
    weighed: Weighed


BODY = b'{"first":null,"parcels":[{"notes":["a"],"price":"1.10","sku":"s"}],"place":{"floors":[1],"street":"Elm"}}'
EVENT = Ordered(parcels=[Parcel(sku="s", price=Decimal("1.10"), notes=["a"])], place=Place("Elm", [1]))


def test_a_body_of_models_is_read_and_written_alike() -> None:
    assert decode(Ordered, "it.was.ordered", 1, BODY) == EVENT
    assert frozen_body(EVENT) == BODY
    assert (
        frozen_body(Told(parcel=EVENT.parcels[0])) == b'{"parcel":{"notes":["a"],"price":"1.10","sku":"s"}}'
    )


def test_a_model_that_does_not_fit_fails_the_event_without_quoting_it() -> None:
    with pytest.raises(EventError, match=r"is no Parcel \(price: greater_than_equal\)") as failed:
        decode(Ordered, "it.was.ordered", 1, BODY.replace(b"1.10", b"-77"))
    assert "77" not in str(failed.value)


def test_no_handler_changes_the_models_that_another_sees() -> None:
    class Careless(Projection, stream="S", subjects="s.{aggregate}", table="careless", key="id"):
        id: str
        seen: str = ""

        @on(Ordered)
        def ordered(self, event: Ordered) -> None:
            event.parcels[0].notes.append("b")
            event.place.floors.append(2)
            self.seen = f"{event.parcels[0].notes} {event.place.floors}"

    assert folded(Careless, ("o", EVENT)).rows == {"o": ("o", "['a', 'b'] [1, 2]")}
    assert (EVENT.parcels[0].notes, EVENT.place.floors) == (["a"], [1])


def test_a_model_is_followed_for_changes_of_code() -> None:
    class Reading(Reactor, stream="S", subjects="s.{aggregate}"):
        @on(Ordered)
        def ordered(self, event: Ordered) -> Told:
            return Told(parcel=event.parcels[0])

    assert definition(Reading).unfollowed == ()


def test_bounds_of_a_decimal_say_where_they_belong() -> None:
    with pytest.raises(DefinitionError, match=r"Annotated\[Decimal, Bounds\(ge=0\)\]"):

        class Priced(Event, type="it.has.a.price"):
            price: Annotated[Decimal, msgspec.Meta(ge=0)]


def test_a_check_of_ones_own_fails_the_event() -> None:
    class Checked(Event, type="it.was.checked"):
        price: Decimal

        def __post_init__(self) -> None:
            if self.price < 0:
                raise ValueError("a price is zero or more")

    with pytest.raises(EventError, match="a price is zero or more"):
        decode(Checked, "it.was.checked", 1, b'{"price":"-1"}')


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_with_a_number_json_lacks_is_not_written(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON does not know"):
        frozen_body(Weight(weighed=Weighed(grams=value)))
