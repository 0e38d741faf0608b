"""An app as an AsyncAPI document: valid by the official schema, and its payloads are what is published."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pydantic
import pytest
from jsonschema import Draft7Validator
from tests.unit.projections import shop

from projectionist.ops.main import main
from projectionist.projections import Event, Projection, Reactor, on
from projectionist.projections.event import decode
from projectionist.projections.stream import Stream
from projectionist.runner import App

OFFICIAL = Path(__file__).with_name("asyncapi-3.0.0.json")


class Line(msgspec.Struct):
    sku: str
    price: Decimal


class Street(pydantic.BaseModel):
    number: int


class Address(pydantic.BaseModel):
    street: Street


class Charged(Event, type="pay ment/charged", schema=2):
    """A card was charged."""

    lines: list[Line]
    address: Address | None = None


class OtherPlaced(Event, type="order.placed"):
    """What another consumer needs to know of it."""

    order_id: str


PAYMENTS = Stream("PAYMENTS", "pay.{type}.{id}", source="pay-api", events=[Charged])


class Ledger(Projection, stream=PAYMENTS, table="finance.ledger", key="payment_id"):
    """One row a payment."""

    payment_id: str

    @on(Charged)
    def charged(self, event: Charged) -> None: ...


class Watcher(Reactor, stream="SHOP", subjects=("shop.order.{aggregate}", "shop.*.{aggregate}.>")):
    @on(OtherPlaced)
    def placed(self, event: OtherPlaced) -> None: ...


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document, as the command prints it."""
    module = ModuleType("asyncapi_shop")
    module.app = App(  # type: ignore[attr-defined]
        projections=[shop.OrderSummary, Ledger, Watcher], streams=[PAYMENTS]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "asyncapi_shop", module)
        printed: list[str] = []
        patch.setattr(sys.stdout, "write", printed.append)
        assert main(["asyncapi", "asyncapi_shop:app"]) == 0
    found: dict[str, Any] = json.loads("".join(printed))
    return found


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_the_document_is_valid_by_the_official_schema(document: dict[str, Any]) -> None:
    validator = Draft7Validator(json.loads(OFFICIAL.read_text("utf-8")))
    assert [error.message for error in validator.iter_errors(document)] == []
    assert [*validator.iter_errors({**document, "channels": {"a": {"adress": "b"}}})]
    for reference in references(document):
        reduce(lambda part, key: part[key], reference.removeprefix("#/").split("/"), document)


def test_it_says_who_sends_and_receives_what_and_where(document: dict[str, Any]) -> None:
    said = {
        name: (one["action"], document["channels"][channel]["address"], messages)
        for name, one in document["operations"].items()
        for channel in [one["channel"]["$ref"].split("/")[-1]]
        for messages in [[each["$ref"].split("/")[-1] for each in one["messages"]]]
    }
    placed, orders = "order.placed", "shop.order.{aggregate}"
    assert said == {
        "PAYMENTS.publish": ("send", "pay.{type}.{id}", ["pay_ment_charged"]),
        "OrderSummary": ("receive", orders, ["order.forgotten", "order.paid", placed, "order.shipped"]),
        "OrderSummary.Receipt": ("send", None, ["Receipt"]),
        "Ledger": ("receive", "pay.{type}.{id}", ["pay_ment_charged"]),
        "Watcher.1": ("receive", orders, ["order.placed-2"]),
        "Watcher.2": ("receive", "shop.*.{aggregate}.>", ["order.placed-2"]),
    }
    ledger = document["operations"]["Ledger"]
    assert (ledger["description"], ledger["x-tables"]) == ("One row a payment.", ["finance.ledger"])
    assert document["channels"]["PAYMENTS.pay"]["x-jetstream-stream"] == "PAYMENTS"
    message = document["components"]["messages"]["pay_ment_charged"]
    assert (message["name"], message["x-schema"]) == ("pay ment/charged", 2)


@pytest.mark.parametrize(
    ("body", "good"),
    [
        ('{"lines": [{"sku": "a", "price": "1.10"}], "address": {"street": {"number": 1}}}', True),
        ('{"lines": [], "address": {"street": {"number": "x"}}}', False),
        ('{"lines": [{"sku": 1}]}', False),
    ],
)
def test_a_payload_is_what_the_class_reads(document: dict[str, Any], body: str, good: bool) -> None:
    payload = document["components"]["messages"]["pay_ment_charged"]["payload"]
    validator = Draft7Validator({**payload, "components": document["components"]})
    assert validator.is_valid(json.loads(body)) is good
    if good:
        event = decode(Charged, "pay ment/charged", 2, body.encode())
        assert isinstance(event, Charged)
        assert event.lines == [Line("a", Decimal("1.10"))]
