"""The picture of an app: what hangs on what, nothing upon another, and names that fit."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from tests.support.shop import shop

from projectionist.console.app_map import (
    CONSUMER,
    HEIGHT,
    INTENT,
    PROVIDER,
    STREAM,
    TABLE,
    MapLine,
    app_map,
    map_lines,
)
from projectionist.projections import definition

LINES = [
    MapLine("Hooks", "A", [], [("Hook", "hooks"), ("Mail", "email")]),
    MapLine("Orders", "A", ["orders", "lines"], [("Mail", "email")]),
    MapLine("Refunds", "B", ["refunds"], []),
]


def test_a_consumer_is_told_with_what_it_reads_writes_and_asks_for() -> None:
    made = shop(cast("Any", SimpleNamespace(name="ORDERS", subject=lambda *parts: f"x.{'.'.join(parts)}")))
    lines = map_lines([definition(made.Spend), definition(made.Orders), definition(made.Mailer)])
    assert lines == [
        MapLine("Mailer", "ORDERS", [], [("Receipt", "email")]),
        MapLine("Orders", "ORDERS", ["orders"], [("Receipt", "email")]),
        MapLine("Spend", "ORDERS", ["spend"], []),
    ]


def test_each_thing_is_there_once_and_nothing_stands_upon_another() -> None:
    drawn = app_map(LINES, ["A", "UNREAD"], ["email", "sms"], {})
    keys = [node.key for node in drawn.nodes]
    assert len(keys) == len(set(keys))
    assert {(STREAM, "UNREAD"), (PROVIDER, "sms"), (PROVIDER, "hooks"), (INTENT, "Mail")} <= set(keys)
    for column in range(5):
        ys = sorted(node.y for node in drawn.nodes if node.key[0] == column)
        assert all(upper + HEIGHT < lower for upper, lower in pairwise(ys))
        assert ys[-1] + HEIGHT < drawn.height
    assert len(drawn.edges) == 3 + 3 + 3 + 2, "streams, tables, intents, providers"


def test_it_leads_to_the_pages_of_what_it_shows() -> None:
    hrefs = {node.key: node.href for node in app_map(LINES, [], [], {}).nodes}
    assert hrefs[CONSUMER, "Hooks"] == "/consumer?name=Hooks"
    assert hrefs[TABLE, "lines"] == "/consumer?name=Orders"
    assert hrefs[INTENT, "Mail"] == "/outbox?intent=Mail"
    assert hrefs[PROVIDER, "email"] == "/outbox?provider=email"
    assert hrefs[STREAM, "B"] == "/streams"


def test_a_long_name_is_shortened_in_its_middle() -> None:
    long = "WarehouseReservationsByCustomer"
    [node] = [
        one
        for one in app_map([MapLine(long, "A", [], [])], [], [], {(CONSUMER, long): "ok"}).nodes
        if one.key[0] == CONSUMER
    ]
    assert node.label == "WarehouseR…yCustomer"
    assert node.name == long


def test_an_app_without_consumers_is_an_empty_picture() -> None:
    assert app_map([], [], [], {}).nodes == []
