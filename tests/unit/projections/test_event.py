"""Events: reading a body into its class, and old shapes into the newest."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from types import FunctionType
from typing import Any
from uuid import UUID

import pytest

from projectionist.core.errors import DefinitionError
from projectionist.projections import Event, EventError, upcast
from projectionist.projections.event import EventMeta, decode, formerly_of, schema_of, type_of
from projectionist.projections.upcasting import Step, upcasters_of


class Address(Event):
    """A base: no type of its own."""

    city: str = ""


class Moved(Address, type="customer.moved", schema=3, formerly=("customer.relocated",), kw_only=True):
    customer: str
    fee: Decimal | None = None


@upcast("customer.moved", schema=1)
def _named(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "customer": document.pop("name")}


@upcast("customer.moved", schema=2)
def _with_city(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "city": document["town"].title()}


class Stuck(Event, type="customer.stuck", schema=3):
    customer: str = ""


@upcast("customer.stuck", schema=2)
def _breaks(document: dict[str, Any]) -> dict[str, Any]:
    raise KeyError("secret value")


def test_a_class_knows_its_type_schema_and_former_types() -> None:
    assert (type_of(Moved), schema_of(Moved), formerly_of(Moved)) == (
        "customer.moved",
        3,
        ("customer.relocated",),
    )
    assert type_of(Address) is None


def test_an_event_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Moved(customer="ann").customer = "bob"


def test_a_body_is_read_and_unknown_fields_are_ignored() -> None:
    body = b'{"customer": "ann", "city": "Bonn", "fee": "1.50", "new": [1]}'
    assert decode(Moved, "customer.moved", 3, body) == Moved(city="Bonn", customer="ann", fee=Decimal("1.50"))


@pytest.mark.parametrize("kind", ["customer.moved", "customer.relocated"])
def test_an_old_shape_goes_through_every_step_up_to_the_newest(kind: str) -> None:
    assert decode(Moved, kind, 1, b'{"name": "ann", "town": "bonn"}') == Moved(city="Bonn", customer="ann")
    assert decode(Moved, kind, 2, b'{"customer": "ann", "town": "bonn"}') == Moved(
        city="Bonn", customer="ann"
    )


@pytest.mark.parametrize(
    ("schema", "body", "complaint"),
    [
        (3, b'{"customer": 7}', r"Expected `str`, got `int` - at `\$.customer`"),
        (3, b"{}", "missing required field `customer`"),
        (3, b"not json", "malformed"),
        (3, b"[]", "Expected `object`, got `array`"),
        (3, b'{"customer": "' + b"\xff" + b'"}', "customer.moved"),
        (4, b"{}", "this code knows 3. Deploy"),
        (2, b"[]", "Expected `object`"),
        (0, b"{}", r"no way from schema 0.*@upcast\(\"customer.moved\", schema=0\)"),
    ],
)
def test_a_body_that_does_not_fit_is_an_error_that_names_the_place(
    schema: int, body: bytes, complaint: str
) -> None:
    with pytest.raises(EventError, match=complaint):
        decode(Moved, "customer.moved", schema, body)


def test_a_step_that_raises_is_named_and_the_value_is_not() -> None:
    with pytest.raises(EventError, match=r"_breaks raised KeyError on schema 2") as caught:
        decode(Stuck, "customer.stuck", 2, b"{}")
    assert "secret" not in str(caught.value)


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    with pytest.raises(EventError):
        decode(Stuck, "customer.stuck", 3, b'{"customer":' + b"[" * 100_000)


def test_steps_are_known_in_their_order() -> None:
    assert tuple(upcasters_of(Moved)) == (_named, _with_city)


def test_steps_are_those_of_the_events_module_or_the_only_ones() -> None:
    step = FunctionType(_named.__code__, _named.__globals__, "elsewhere")
    step.__module__ = "another.module"
    upcast("customer.moved", schema=1)(step)
    assert decode(Moved, "customer.moved", 1, b'{"name": "ann", "town": "bonn"}') == Moved(
        "Bonn", customer="ann"
    )

    class Guest(Event, type="customer.moved", schema=2):
        customer: str = ""

    Guest.__module__ = "a.third.module"
    with pytest.raises(EventError, match="none of them is the module's of Guest"):
        decode(Guest, "customer.moved", 1, b"{}")


def test_an_old_document_may_hold_every_kind_of_value() -> None:
    class Dated(Event, type="dated", schema=2):
        at: datetime
        fee: Decimal
        id: UUID

    upcast("dated", schema=1)(dict)
    body = b'{"at": "2026-01-01T00:00:00Z", "fee": "1.50", "id": "00000000-0000-0000-0000-000000000007"}'
    assert decode(Dated, "dated", 1, body) == decode(Dated, "dated", 2, body)


class Priced(Event, type="priced", schema=2):
    price: Decimal = Decimal(0)
    rate: float = 0.0
    names: dict[int, str] = {}
    rest: Any = None


upcast("priced", schema=1)(dict)


@pytest.mark.parametrize(
    "body",
    [
        b'{"price": 12345678901234567890.123456789}',
        b'{"price": 0.10}',
        b'{"price": 1e400}',
        b'{"price": "0.10", "rate": 1e-3}',
        b'{"rate": 123456789012345678901234567890}',
        b'{"rest": 123456789012345678901234567890}',
        b'{"rest": [1.10, {"1": -0.0}]}',
        b'{"names": {"1": "a"}}',
    ],
)
def test_an_old_event_is_read_as_a_new_one_to_the_last_digit(body: bytes) -> None:
    assert repr(decode(Priced, "priced", 1, body)) == repr(decode(Priced, "priced", 2, body))


@pytest.mark.parametrize("body", [b'{"rate": 1e400}', b'{"names": {"a": "b"}}'])
def test_an_old_event_is_refused_where_a_new_one_is(body: bytes) -> None:
    for schema in (1, 2):
        with pytest.raises(EventError, match="the body is not a 'priced'"):
            decode(Priced, "priced", schema, body)


def test_a_step_that_makes_no_document_is_told_without_its_values() -> None:
    class Odd(Event, type="odd", schema=2):
        name: str = ""

    upcast("odd", schema=1)(lambda old: {"name": "secret \ud800", "more": object()})
    with pytest.raises(EventError, match="no JSON") as caught:
        decode(Odd, "odd", 1, b"{}")
    assert "secret" not in str(caught.value)


def test_two_steps_from_one_schema_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"two upcasters for .customer\.moved. schema 1"):

        @upcast("customer.moved", schema=1)
        def other(document: dict[str, Any]) -> dict[str, Any]:
            return document


def test_a_step_defined_again_is_a_reload() -> None:
    assert upcast("customer.moved", schema=1)(_named) is _named


@pytest.mark.parametrize(
    ("keywords", "complaint"),
    [
        ({"type": ""}, "printable text"),
        ({"type": "with\nnewline"}, "printable text"),
        ({"type": "x" * 513}, "at most 512 bytes"),
        ({"type": "a", "schema": 0}, "Schemas count from 1"),
    ],
)
def test_a_class_that_cannot_work_is_refused_when_it_is_defined(
    keywords: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        EventMeta("Wrong", (Event,), {}, **keywords)


def test_a_field_type_that_json_cannot_bring_is_refused_when_the_class_is_defined() -> None:
    with pytest.raises(DefinitionError, match="cannot be read from JSON"):
        EventMeta("Wrong", (Event,), {"__annotations__": {"clash": int | list[int] | set[int]}}, type="wrong")


def test_of_upcasters_in_several_modules_the_nearest_is_taken() -> None:
    """One that is added elsewhere takes nothing from classes that did with the only one before."""

    class Here(Event, type="near", schema=2):
        x: int = 0

    Here.__module__ = "shop.orders.events"
    for place in ("shop.orders.old", "shop.billing.old", "elsewhere"):
        step = _step()
        step.__module__ = place
        upcast("near", schema=1)(step)
        found = [found.__module__ for found in upcasters_of(Here)]
        assert found == ["shop.orders.old"]


def test_of_upcasters_that_are_as_near_none_is_taken_and_both_are_named() -> None:
    class There(Event, type="tied", schema=2):
        x: int = 0

    There.__module__ = "shop.orders.events"
    for place in ("shop.orders.old", "shop.orders.older"):
        step = _step()
        step.__module__ = place
        upcast("tied", schema=1)(step)

    with pytest.raises(
        EventError, match=r"shop\.orders\.old\.\S+ and shop\.orders\.older\.\S+ lead from"
    ) as told:
        decode(There, "tied", 1, b"{}")
    assert "in shop.orders.events" in str(told.value.remedy)


def _step() -> Step:
    return lambda old: old


def test_a_step_that_splits_an_event_is_refused_or_named() -> None:
    def in_two(old: dict[str, Any]) -> list[dict[str, Any]]:
        return [old, old]

    with pytest.raises(
        DefinitionError, match=r"becomes one new document\. Return one dict\. An event cannot be split"
    ):
        upcast("it.is.split", schema=1)(in_two)  # type: ignore[type-var]

    class Split(Event, type="it.is.split", schema=2):
        pass

    step: Any = lambda old: [old, old]  # noqa: E731  without annotations nobody can tell before
    upcast("it.is.split", schema=1)(step)
    with pytest.raises(EventError, match=r"made a list of schema 1 of 'it\.is\.split', and no document"):
        decode(Split, "it.is.split", 1, b"{}")
