"""Lookups: what may be declared, which keys an event names, and what a handler is given of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from types import FunctionType, new_class
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.unit.projections.folding import step_of, steps_of

from projectionist.core.errors import DefinitionError
from projectionist.outbox import Intent
from projectionist.projections import (
    Envelope,
    Event,
    Projection,
    Reactor,
    SqlProjection,
    Tx,
    definition,
    lookup,
    on,
    reference,
)
from projectionist.projections.compiled.fingerprint import code_of
from projectionist.projections.folding.fold import FoldResult, fold
from projectionist.projections.folding.looked_up import LookedUpRows
from projectionist.projections.lookups import Reference
from projectionist.projections.tables.row_statements import read_by_keys
from projectionist.projections.tables.table_key import MOST_ROWS

POLICY: dict[str, Any] = {"stream": "SHOP", "subjects": "shop.order.{aggregate}"}


class Country(StrEnum):
    """Where orders go."""

    DE = "DE"
    FR = "FR"


class Placed(Event, type="order.placed"):
    """An order, which may name no country, and articles."""

    country: str | None = "DE"
    skus: tuple[str, ...] = ()
    year: int = 2026


class Shipped(Event, type="order.shipped"):
    """One whose handler looks nothing up."""


@dataclass(frozen=True)
class TaxRate:
    """A rate of one country."""

    country: str
    rate: Decimal
    notes: list[str]
    since: int | None = None


class Price(msgspec.Struct, frozen=True):
    """A price of an article in a year."""

    sku: str
    year: int
    cents: int


@dataclass
class Loose:
    """A row that can be changed."""

    country: str


class Receipt(Intent, provider="email"):
    """What a Reactor asks for."""

    to: str


TAXES = reference("public.tax_rates", TaxRate, key="country")
PRICES = reference("prices", Price, key=("sku", "year"))


class Taxed(Projection, table="taxed", key="order_id", **POLICY):
    """Orders with the rate and the prices of the moment."""

    order_id: str
    rate: Decimal = Decimal(0)
    cents: int = 0
    seen: int = 0
    taxes = lookup(TAXES, by="country")
    prices = lookup(PRICES, by=lambda event: [(sku, event.year) for sku in event.skus])

    @on(Placed)
    def placed(
        self, event: Placed, *, taxes: Mapping[str, TaxRate], prices: Mapping[tuple[str, int], Price]
    ) -> None:
        """Keep both."""
        self.rate = sum((one.rate for one in taxes.values()), Decimal(0))
        self.cents = sum(one.cents for one in prices.values())
        self.seen = len(taxes) + len(prices)

    @on(Shipped)
    def shipped(self, event: Shipped) -> None:
        """Keep nothing."""


GERMAN, FRENCH = ("DE", "0.19", '["a"]', None), ("FR", "0.20", "[]", 2014)
PEN, INK = ("pen", 2026, 120), ("ink", 2026, 900)
TABLES: Mapping[Reference[Any], list[tuple[Any, ...]]] = {TAXES: [GERMAN, FRENCH], PRICES: [PEN, INK]}


def shelf(
    rows: Mapping[Reference[Any], list[tuple[Any, ...]]], lacking: Mapping[Any, set[Any]]
) -> LookedUpRows:
    """What a reader would have found, of tables with these rows."""
    found = LookedUpRows()
    for source, keys in lacking.items():
        assert source.table.key is not None
        of = source.table.key.of
        found.put(source, keys, [row for row in rows.get(source, []) if of(row) in keys])
    return found


def folded(
    cls: type, *events: Event, rows: Mapping[Reference[Any], list[tuple[Any, ...]]] | None = None
) -> FoldResult:
    """The fold of one event an aggregate, over tables of others with these rows."""
    steps = steps_of(cls, [(f"o-{at}", event) for at, event in enumerate(events)])
    lacking = LookedUpRows().lacking((one.handler, one.event, one.envelope) for one in steps)
    return fold(definition(cls), steps, {}, looked_up=shelf(TABLES if rows is None else rows, lacking))


def failure(result: FoldResult) -> str:
    """The only failure, as text."""
    (one,) = result.failures.values()
    return f"{one.error_class}: {one.message}"


def looking(handle: Callable[..., Any], event: type[Event] = Placed, **lookups: Any) -> type[Reactor]:
    """A Reactor with this handler and these lookups."""

    def body(namespace: dict[str, Any]) -> None:
        fresh = FunctionType(handle.__code__, handle.__globals__, handle.__name__, closure=handle.__closure__)
        fresh.__kwdefaults__, fresh.__annotations__ = handle.__kwdefaults__, handle.__annotations__
        namespace.update({"handle": on(event)(fresh), "__module__": __name__, **lookups})

    return new_class("Declared", (Reactor,), POLICY, body)


def test_a_handler_gets_the_rows_of_its_events_keys_alone() -> None:
    found = folded(Taxed, Placed("DE", ("pen", "ink")), Placed("FR", ("pen",)), Placed("IT"), Placed(None))
    assert found.failures == {}
    assert found.rows == {
        "o-0": ("o-0", "0.19", 1020, 3),
        "o-1": ("o-1", "0.20", 120, 2),
        "o-2": ("o-2", "0", 0, 0),
        "o-3": ("o-3", "0", 0, 0),
    }


def test_a_batch_asks_for_each_key_once_and_for_nothing_that_is_there() -> None:
    steps = steps_of(
        Taxed, [("a", Placed("DE", ("pen",))), ("b", Placed("DE", ("pen", "ink"))), ("c", Shipped())]
    )
    events = [(one.handler, one.event, one.envelope) for one in steps]
    found = LookedUpRows()
    assert found.lacking(events) == {TAXES: {"DE"}, PRICES: {("pen", 2026), ("ink", 2026)}}
    found.put(TAXES, ["DE"], [])
    assert found.lacking(events) == {PRICES: {("pen", 2026), ("ink", 2026)}}


def read_french(self: object, event: Placed, *, taxes: Mapping[str, TaxRate]) -> None:
    """Look up one key, whatever the event names."""
    assert taxes["FR"].rate == Decimal("0.20")


def test_a_key_that_only_another_event_of_the_batch_names_is_an_error() -> None:
    reactor = looking(read_french, taxes=lookup(TAXES, by="country"))
    for event in (Placed("DE"), Placed(None)):
        wrong = failure(folded(reactor, event, Placed("FR")))
        assert "UndeclaredKey: taxes holds the keys that by= gives for this event, and no others" in wrong


def mapped(event: Placed, *rows: tuple[Any, ...]) -> Mapping[Any, Any]:
    """What a handler of Taxed is given of tax rates."""
    step = step_of(Taxed, 0, "o-1", event)
    given = shelf({TAXES: list(rows)}, LookedUpRows().lacking([(step.handler, step.event, step.envelope)]))
    return given.given(step.handler, step.event, step.envelope)["taxes"]


def test_a_mapping_takes_keys_as_users_write_them_and_thaws_documents_anew() -> None:
    taxes = mapped(Placed("DE"), GERMAN)
    assert taxes["DE"] == TaxRate("DE", Decimal("0.19"), ["a"], None)
    assert taxes[Country.DE] == taxes["DE"]
    assert taxes["DE"].notes is not taxes["DE"].notes
    assert list(taxes) == ["DE"]
    assert "DE" in taxes
    assert repr(taxes) == "taxes of 1 keys"
    assert not hasattr(taxes, "__setitem__")
    none = mapped(Placed("DE"))
    assert "DE" not in none
    assert none.get("DE") is None
    with pytest.raises(KeyError):
        none["DE"]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (("DE", None, "[]", 1), "public.tax_rates.rate is null, and TaxRate does not declare it `| None`"),
        (("DE", "0.19", '{"a": 1}', 1), "public.tax_rates.notes does not fit"),
        (("DE", "0.19", "[]", "x"), "public.tax_rates.since takes a int"),
    ],
)
def test_a_row_that_does_not_fit_its_class_fails_the_event_that_looks_at_it(row: Any, complaint: str) -> None:
    assert complaint in failure(folded(Taxed, Placed("DE"), Placed("FR"), rows={TAXES: [row, FRENCH]}))


def test_two_rows_of_one_key_are_an_error_and_not_one_of_them_by_chance() -> None:
    assert "public.tax_rates has several rows of one key" in failure(
        folded(Taxed, Placed("DE"), Placed("FR"), rows={TAXES: [GERMAN, GERMAN, FRENCH]})
    )


def nothing(self: object, event: Event, *, taxes: Mapping[Any, Any]) -> None:
    """Look at nothing."""


calls = iter(range(1000))


@pytest.mark.parametrize(
    ("by", "complaint"),
    [
        (lambda event: 7, "taxes cannot be looked up: its key column 'country' takes a str"),
        (lambda event: event.year / 0, "its key is not known: by= raised ZeroDivisionError"),
        (lambda event: ["DE"] * (MOST_ROWS + 1), "one of more than 10,000"),
        (lambda event: str(next(calls)), "by= gives other keys each time"),
        (lambda event: "x" * 600, "longer than 512 bytes"),
    ],
)
def test_a_key_that_is_none_fails_its_event(by: Callable[[Any], object], complaint: str) -> None:
    reactor = looking(nothing, taxes=lookup(TAXES, by=by))
    assert complaint in failure(folded(reactor, Placed("DE")))


def test_by_may_take_the_envelope_and_a_reactor_may_look_up() -> None:
    def ask(self: object, event: Placed, envelope: Envelope, *, taxes: Mapping[str, TaxRate]) -> Receipt:
        return Receipt(to=str(taxes["DE"].rate))

    def by(event: Placed, envelope: Envelope) -> str:
        return "DE" if envelope.aggregate_id == "o-0" else "FR"

    found = folded(looking(ask, taxes=lookup(TAXES, by=by)), Placed("IT"))
    assert [one.body for _, one in found.intents] == [b'{"to":"0.19"}']


def test_a_table_of_others_is_read_by_its_public_name_and_what_users_may_see() -> None:
    assert read_by_keys(TAXES.table) == (
        'select "country", "rate"::text, "notes"::text, "since" from "public"."tax_rates"'
        ' where "country" = any($1::text[])'
    )
    assert "from unnest($1::text[], $2::bigint[])" in read_by_keys(PRICES.table)
    assert 'from "public"."prices" t' in read_by_keys(PRICES.table)


def test_references_are_equal_where_they_say_the_same() -> None:
    again = reference("tax_rates", TaxRate, key="country")
    assert again == TAXES
    assert hash(again) == hash(TAXES)
    assert again != PRICES
    assert definition(Taxed).references == (PRICES, TAXES)


def keyed(self: object, event: Event, *, prices: Mapping[Any, Any]) -> None:
    """Look prices up."""


def loose(self: object, event: Event, **more: Any) -> None:
    """Take anything."""


def plain(self: object, event: Event) -> None:
    """Take nothing."""


class Numbered(msgspec.Struct, frozen=True):
    """A row with a key of another kind."""

    id: UUID


@pytest.mark.parametrize(
    ("declare", "complaint"),
    [
        (lambda: reference("t", Loose, key="country"), "Loose can be changed"),
        (lambda: reference("t", dict, key="country"), "dict can be changed"),
        (lambda: reference("t", TaxRate, key="land"), "TaxRate has no field 'land', which key= names"),
        (lambda: reference("t", TaxRate, key=()), r"key=\(\)"),
        (lambda: reference("t", TaxRate, key=("country", "country")), "key="),
        (lambda: reference("t", TaxRate, key="rate"), "cannot be a key"),
        (lambda: reference("a.b.c", TaxRate, key="country"), "cannot be used"),
        (lambda: lookup(TAXES), "by=None"),  # type: ignore[call-overload]  # what checkers refuse
        (lambda: lookup(TAXES, by=("country", 7)), "by="),  # type: ignore[arg-type]  # the same
        (lambda: lookup(TAXES, by=lambda: "DE"), r"by=<lambda>\) takes \(\)"),
        (lambda: lookup(TaxRate, by="country"), r"lookup\(TaxRate\)"),  # type: ignore[type-var]  # the same
        (lambda: looking(nothing), "takes taxes behind \\*, which is no lookup"),
        (
            lambda: looking(plain, taxes=lookup(TAXES, by="country")),
            "taxes is a lookup that no handler takes",
        ),
        (lambda: looking(loose), r"takes \(self"),
        (
            lambda: looking(nothing, taxes=lookup(TAXES, by="land")),
            "Placed has no field 'land', which by= names",
        ),
        (
            lambda: looking(nothing, taxes=lookup(TAXES, by="year")),
            "Placed.year is a int, the key country is a str",
        ),
        (
            lambda: looking(nothing, Shipped, taxes=lookup(TAXES, by="country")),
            "Shipped has no field 'country'",
        ),
        (lambda: looking(keyed, prices=lookup(PRICES, by="year")), "by='year' is no key of sku, year"),
    ],
)
def test_what_cannot_be_looked_up_is_refused_where_it_is_declared(
    declare: Callable[[], object], complaint: str
) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        declare()


def test_a_sql_projection_looks_nothing_up() -> None:
    with pytest.raises(DefinitionError, match="taxes is a lookup, and InSql is a SqlProjection"):

        class InSql(SqlProjection, **POLICY):
            taxes = lookup(TAXES, by="country")

            @on(Placed)
            async def placed(self, tx: Tx, event: Placed) -> None:
                """Read it in SQL."""


def test_what_is_looked_up_and_by_what_is_part_of_the_code() -> None:
    def first(event: Placed) -> object:
        return event.country

    def second(event: Placed) -> object:
        return "DE"

    one, other = (definition(looking(nothing, taxes=lookup(TAXES, by=by))) for by in (first, second))
    assert code_of(one) != code_of(other)
