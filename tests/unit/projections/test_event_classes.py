"""Dataclasses and Pydantic models as the classes of events: declared, read, written, copied, compared, refused."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from types import ModuleType
from typing import Annotated, Any, ClassVar

import msgspec
import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel
from tests.unit.projections.folding import folded

from projectionist.api import Event, EventError, Projection, PublishError, Reactor, Stream, event, on, upcast
from projectionist.core.errors import DefinitionError
from projectionist.ops.inspect.async_api import async_api
from projectionist.outbox import frozen_body
from projectionist.outbox.publishing.draft import Producer
from projectionist.projections import definition
from projectionist.projections.compiled.fingerprint import _reach_of
from projectionist.projections.copying import copied, is_mutable
from projectionist.projections.event import decode, fields_of, formerly_of, schema_of, type_of
from projectionist.testing import OldEvent, given


class Line(BaseModel):
    sku: str
    price: Annotated[Decimal, Field(ge=0)]


@event(type="trip.booked", schema=2, formerly=("trip.ordered",))
class Booked(BaseModel):
    """A trip was booked."""

    traveller: str = Field(alias="travellerName")
    lines: list[Line] = []
    seats: Annotated[int, Field(ge=1)] = 1


@event(type="trip.paid")
@dataclass(frozen=True)
class Paid:
    amount: Decimal
    on: date | None = None
    KIND: ClassVar[str] = "money"

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("nobody pays less than nothing")


@event(type="trip.noted")
@dataclass(slots=True)
class Noted:
    words: list[str] = dataclasses.field(default_factory=list)
    where: str = ""


@upcast("trip.booked", schema=1)
def _named(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "travellerName": document.pop("name")}


class Trip(Projection, stream="TRIPS", subjects="trip.{id}", table="trip", key="id"):
    id: str
    traveller: str = ""
    cents: int = 0
    words: str = ""

    @on(Booked)
    def booked(self, event: Booked) -> None:
        self.traveller = event.traveller

    @on(Paid, when=lambda row, event: row.traveller != "")
    def paid(self, event: Paid) -> None:
        self.cents += int(event.amount * 100)

    @on(Noted)
    def noted(self, event: Noted) -> None:
        event.words.append("!")
        self.words = " ".join(event.words)


def test_a_declared_class_stays_what_it_is_and_knows_its_type() -> None:
    assert (type_of(Booked), schema_of(Booked), formerly_of(Booked)) == ("trip.booked", 2, ("trip.ordered",))
    assert (type_of(Paid), schema_of(Paid), formerly_of(Paid)) == ("trip.paid", 1, ())
    assert fields_of(Paid) == {"amount": Decimal, "on": date | None}
    assert list(fields_of(Booked)) == ["traveller", "lines", "seats"]
    assert Booked(travellerName="ann").model_dump() == {"traveller": "ann", "lines": [], "seats": 1}


@pytest.mark.parametrize(
    ("body", "made"),
    [
        (
            b'{"lines":[{"price":"1.10","sku":"s"}],"seats":2,"travellerName":"ann","unknown":[1]}',
            Booked(travellerName="ann", lines=[Line(sku="s", price=Decimal("1.10"))], seats=2),
        ),
        (b'{"amount":"4.20","on":"2026-01-02"}', Paid(Decimal("4.20"), date(2026, 1, 2))),
        (b'{"words":["a"],"where":"here"}', Noted(["a"], "here")),
    ],
)
def test_a_body_is_read_into_the_class_and_written_so_that_it_reads_again(body: bytes, made: Any) -> None:
    kind, schema = str(type_of(type(made))), schema_of(type(made))
    assert decode(type(made), kind, schema, body) == made
    assert decode(type(made), kind, schema, frozen_body(made)) == made


@pytest.mark.parametrize(
    ("cls", "body", "complaint"),
    [
        (Booked, b'{"travellerName":"ann","seats":0}', r"is no Booked \(seats: greater_than_equal\)"),
        (Booked, b'{"lines":[{"sku":"a","price":"-77"}]}', r"travellerName: missing; lines.0.price: greater"),
        (Booked, b'{"travellerName":"ann","seats":NaN}', "malformed"),
        (Booked, b"[]", "is no Booked"),
        (Booked, b"{", "truncated"),
        (Paid, b'{"amount":"-1"}', "nobody pays less than nothing"),
        (Paid, b'{"amount":[]}', r"Expected `decimal`, got `array` - at `\$.amount`"),
        (Paid, b"[]", "Expected `object`"),
    ],
)
def test_a_body_that_does_not_fit_says_where_and_quotes_nothing(
    cls: Any, body: bytes, complaint: str
) -> None:
    with pytest.raises(EventError, match=complaint) as failed:
        decode(cls, str(type_of(cls)), schema_of(cls), body)
    assert "77" not in str(failed.value)


def test_an_old_body_goes_through_its_steps_and_a_newer_one_is_refused() -> None:
    assert decode(Booked, "trip.ordered", 1, b'{"name":"ann"}') == Booked(travellerName="ann")
    with pytest.raises(EventError, match="this code knows 2"):
        decode(Booked, "trip.booked", 3, b"{}")


def test_handlers_get_the_users_class_through_keys_conditions_and_upcasts() -> None:
    story = given(Trip).when(
        "trip/7",
        Paid(Decimal(1)),
        OldEvent("trip.booked", {"name": "ann"}),
        Paid(Decimal("4.20")),
        Noted(["hello"]),
    )
    assert story.row("7") == Trip(id="7", traveller="ann", cents=420, words="hello !")
    assert story.skipped == ["condition false"]


def test_an_event_that_no_consumer_could_read_is_not_published() -> None:
    wrong = Booked.model_construct(traveller="ann", seats=0)
    with pytest.raises(PublishError, match=r"no consumer could read this Booked.*greater_than_equal"):
        Producer(source="/t", subject="trip.{id}").draft(wrong, aggregate="trip/7", version=1, id="a")


def test_no_handler_changes_an_event_that_another_sees() -> None:
    said = Noted(["hello"])
    rows = folded(Trip, ("7", said), ("8", said)).rows
    assert [row and row[3] for row in rows.values()] == ["hello !", "hello !"]
    assert said.words == ["hello"]


@dataclass
class Loose:
    inner: Line
    more: list[dict[str, Any]]

    def __post_init__(self) -> None:
        self.seen: set[str] = set()


class Wide(BaseModel):
    model_config = ConfigDict(extra="allow")
    _seen: list[int] = pydantic.PrivateAttr(default_factory=list)
    lines: list[Line] = []


def test_a_copy_shares_nothing_that_can_change() -> None:
    one = Loose(Line(sku="a", price=Decimal(1)), [{"a": [1]}])
    two = copied(one)
    assert two == one
    assert two.seen == set()
    two.inner.sku, two.more[0]["a"][0] = "b", 2
    two.seen.add("x")
    assert (one.inner.sku, one.more, one.seen) == ("a", [{"a": [1]}], set())
    wide = Wide.model_validate({"beside": [1], "lines": [{"sku": "a", "price": 1}]})
    other = copied(wide)
    assert other == wide
    other.beside.append(2)
    other._seen.append(2)
    other.lines[0].sku = "b"
    assert (wide.beside, wide._seen, wide.lines[0].sku) == ([1], [], "a")  # type: ignore[attr-defined]  # an extra


def test_only_classes_whose_instances_can_change_are_copied() -> None:
    class Fixed(BaseModel):
        model_config = ConfigDict(frozen=True)
        at: date
        rest: tuple[int, ...] = ()

    class Held(BaseModel):
        model_config = ConfigDict(frozen=True)
        lines: list[Line] = []

    assert [is_mutable(one) for one in (Paid, Noted, Booked, Fixed, Held, Wide)] == [
        False,
        True,
        True,
        False,
        True,
        True,
    ]


def test_asyncapi_describes_models_and_dataclasses() -> None:
    trips = Stream("TRIPS", "trip.{id}", source="/trips", events=[Booked, Paid])
    found = async_api("trips", [definition(Trip)], [trips])
    messages = found["components"]["messages"]
    assert messages["trip.booked"]["description"] == "A trip was booked."
    assert messages["trip.booked"]["payload"]["properties"]["seats"]["minimum"] == 1
    assert "Line" in found["components"]["schemas"]
    assert found["components"]["schemas"]["Paid"]["required"] == ["amount"]


CODE = """
from __future__ import annotations
import dataclasses
import projectionist.api as p
from pydantic import BaseModel, field_validator
from projectionist.api import Reactor, event as fact, on

LEAST = {least}

@fact(type="fp.model", {keywords})
class Model(BaseModel):
    seats: {kind} = 1

    @field_validator("seats")
    @classmethod
    def enough(cls, seats: {kind}) -> {kind}:
        if seats < LEAST:
            raise ValueError("too few")
        return seats

@p.event(type="fp.dataclass")
@dataclasses.dataclass(frozen={frozen})
class Data:
    seats: int = 1

class Reading(Reactor, stream="S", subjects="s.{{id}}"):
    @on(Model)
    def model(self, event: Model) -> None: ...
    @on(Data)
    def data(self, event: Data) -> None: ...
"""


def test_a_fingerprint_counts_fields_and_checks_and_no_keyword(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))

    def code(name: str, **change: str) -> list[tuple[str, str]]:
        text = {"least": "1", "keywords": "schema=1", "kind": "int", "frozen": "True"} | change
        (tmp_path / f"{name}.py").write_text(CODE.format(**text), "utf-8")
        module: ModuleType = __import__(name)
        found = definition(module.Reading)
        assert found.unfollowed == ()
        texts = _reach_of(found).texts
        del sys.modules[name]
        return sorted((label.replace(name, "m"), text) for label, text in texts)

    first = code("fp_first")
    assert code("fp_same", keywords='formerly=("fp.old",)') == first
    assert code("fp_schema", keywords="schema=2") == first
    others = [code("fp_least", least="2"), code("fp_kind", kind="float"), code("fp_frozen", frozen="False")]
    assert len({repr(one) for one in (first, *others)}) == 4


@pydantic.dataclasses.dataclass
class Checked:
    seats: int


class Plain:
    seats: int


class OwnStruct(msgspec.Struct):
    seats: int


@dataclass(init=False)
class Made:
    seats: int


@dataclass
class OwnInit:
    seats: int

    def __init__(self) -> None:
        self.seats = 1


@dataclass
class Counted:
    seats: int
    rows: int = dataclasses.field(init=False, default=0)


@dataclass
class Started:
    seats: int
    how: dataclasses.InitVar[int] = 0


@dataclass
class Opaque:
    what: Plain


@dataclass
class HoldsChecked:
    inner: Checked


class Child(Paid):
    """A subclass that is declared by nobody."""


class Listed(RootModel[list[int]]):
    """A body that is no object."""


class Unready(BaseModel):
    later: Later  # type: ignore[name-defined]  # noqa: F821 it is never defined


class Own(Event, type="trip.own"):
    seats: int


@pytest.mark.parametrize(
    ("cls", "complaint"),
    [
        (Plain, "no dataclass or Pydantic model.*above @dataclass"),
        (Child, "no dataclass itself; a base is"),
        (OwnStruct, r'is a msgspec.Struct.*class OwnStruct\(Event, type="…"\)'),
        (Own, "is an Event"),
        (Checked, "a dataclass of Pydantic"),
        (HoldsChecked, "inner holds a Checked"),
        (Made, "__init__ of its own"),
        (OwnInit, "__init__ of its own"),
        (Counted, r"rows is field\(init=False\)"),
        (Started, "InitVar"),
        (Opaque, "what holds a Plain"),
        (Listed, "RootModel"),
        (Unready, "Later"),
        (7, "no class"),
    ],
)
def test_a_class_that_cannot_be_an_event_is_refused_with_a_cure(cls: Any, complaint: str) -> None:
    with pytest.raises(DefinitionError, match=f"(?s){complaint}"):
        event(type="trip.wrong")(cls)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: event(type=""),
        lambda: event(type="a\nb"),
        lambda: event(type="a", schema=0),
        lambda: event(type="a", formerly="b"),  # type: ignore[arg-type]  # what a user may write
    ],
)
def test_bad_keywords_are_refused(declare: Callable[[], Any]) -> None:
    @dataclass
    class Fine:
        seats: int = 0

    with pytest.raises(DefinitionError):
        declare()(Fine)


def test_a_subclass_without_a_type_of_its_own_cannot_be_handled() -> None:
    class Later(Own):
        more: int = 0

    with pytest.raises(DefinitionError, match=r"@on\(Later\): that is no event with a type"):
        on(Later)
    with pytest.raises(DefinitionError, match=r"@on\(Child\)"):
        on(Child)


def test_a_key_that_is_no_field_names_those_of_the_model() -> None:
    with pytest.raises(DefinitionError, match="Its fields are: traveller, lines, seats"):

        class ByNothing(Projection, stream="TRIPS", subjects="trip.{id}", table="by_nothing", key="name"):
            name: str

            @on(Booked, key="nme")
            def booked(self, event: Booked) -> None: ...


def test_a_reactor_takes_them_too() -> None:
    class Quiet(Reactor, stream="TRIPS", subjects="trip.{id}"):
        @on(Booked, Paid)
        def both(self, event: Booked | Paid) -> None: ...

    assert given(Quiet).when("trip/1", Booked(travellerName="a"), Paid(Decimal(1))).intents == []
