"""Consumers that look rows up in a table of others: orders that keep the tax rate of their day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from tests.support.servers import Stream

from projectionist.outbox import Intent
from projectionist.projections import Event, Projection, Reactor, lookup, on, reference

TABLE = "create table tax_rates (country varchar(2) primary key, rate numeric(5, 4), since int4, more json)"
RATES = "insert into tax_rates values ('DE', 0.1900, 2007, '[1]'), ('FR', 0.2, null, '[]')"


@dataclass(frozen=True)
class TaxRate:
    """A rate of a country; the table has columns of other widths, and one that nobody reads."""

    country: str
    rate: Decimal
    since: int | None


class Sold(Event, type="order.sold"):
    """Something goes to some countries."""

    countries: tuple[str, ...]
    cents: int


class Seen(Event, type="order.seen"):
    """What no lookup is needed for."""


class Receipt(Intent, provider="stub"):
    """What a Reactor asks for."""

    rate: str


def looking_up(stream: Stream) -> SimpleNamespace:
    """A Projection and a Reactor that look rates up."""
    policy: dict[str, Any] = {
        "stream": stream.name,
        "subjects": stream.subject("order", "{aggregate}"),
        "effects": "beginning",
    }

    class Taxed(Projection, table="taxed", key="order_id", **policy):
        order_id: str
        rates: str = ""
        seen: int = 0
        taxes = lookup(reference("public.tax_rates", TaxRate, key="country"), by="countries")

        @on(Sold)
        def sold(self, event: Sold, *, taxes: Mapping[str, TaxRate]) -> None:
            self.rates += (
                " ".join(f"{one}={taxes[one].rate}" for one in event.countries if one in taxes) + ";"
            )

        @on(Seen)
        def noted(self, event: Seen) -> None:
            self.seen += 1

    class Receipts(Reactor, **policy):
        taxes = lookup(reference("public.tax_rates", TaxRate, key="country"), by="countries")

        @on(Sold)
        def sold(self, event: Sold, *, taxes: Mapping[str, TaxRate]) -> list[Receipt]:
            return [Receipt(rate=str(one.rate)) for one in taxes.values()]

    return SimpleNamespace(Taxed=Taxed, Receipts=Receipts)
