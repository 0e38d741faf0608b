"""Erase where a consumer goes on, has no order, is behind, has keys of several columns, or begins anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.erasing import ACT, erase, holders
from tests.support.keyed_lines import LineAdded, keyed
from tests.support.rebuilding import RebuildHarness, dying
from tests.support.retention import age, forgets_after, purge, sent
from tests.support.servers import SCHEMA
from tests.support.several_rows import Closed, Placed, Renamed, StockMoved, several
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.projections import Projection, on
from projectionist.runner.admin.erased_rows import ErasedRows, RowsPlan
from projectionist.runner.admin.erasure import Eraser
from projectionist.runner.admin.reset import Resetting
from projectionist.runner.history import rows_below

pytestmark = pytest.mark.asyncio

WORD = "c4nary"


async def orders(live: ConsumerHarness) -> None:
    """One order that is to be forgotten, and one beside it, of one customer."""
    await live.publish(OrderPlaced("ann", 10), "o1", 1, id="e1")
    await live.publish(OrderNoted(WORD), "o1", 2, id="e2")
    await live.publish(OrderPaid(), "o1", 3, id="e3")
    await live.publish(OrderPlaced("ann", 5), "o2", 1, id="e4")


async def is_right(live: ConsumerHarness, cls: type) -> bool:
    """Return whether all rows were compared, and none differs."""
    found = await RebuildHarness(live).verify(cls)
    return (found.drifted, found.unsure, found.undecidable) == (0, 0, 0)


async def reset(live: ConsumerHarness, name: str) -> None:
    """Have a consumer begin anew."""
    async with live.connected() as connection:
        await Resetting(connection, live.nats, SCHEMA).reset(name, ACT)


def notes(live: ConsumerHarness, name: str, **options: Any) -> type[Projection]:
    """A consumer with a row for each note, under its text."""

    class Notes(
        Projection,
        name=name,
        table="spend",
        key="customer",
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        effects="beginning",
        **options,
    ):
        customer: str
        orders: int = 0
        cents: int = 0

        @on(OrderNoted, key="text")
        def noted(self, event: OrderNoted) -> None:
            self.orders += 1

    return Notes


async def test_all_own_rows_go_where_the_key_has_several_columns(live: ConsumerHarness) -> None:
    lines = keyed(live.stream).Lines
    await live.migrate(lines)
    for number, (order, version) in enumerate((("o1", 1), ("o1", 2), ("o2", 1))):
        await live.publish(LineAdded(number, WORD if order == "o1" else "sku", 2), order, version)
    await live.settle(lines)
    done = await erase(live, lines, aggregate="order/o1")
    assert [one.rows for one in done.consumers] == ["its own rows go"]
    assert await holders(live, WORD) == []
    assert [row[0] for row in await live.rows("lines")] == ["o2"]
    assert await is_right(live, lines)


async def test_an_id_that_is_no_key_of_rows_is_erased_where_it_waits(live: ConsumerHarness) -> None:
    class Numbered(
        Projection,
        table="numbered",
        key="number",
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
    ):
        number: int
        text: str = ""

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.text = event.text

    await live.migrate(Numbered)
    await live.publish(OrderNoted("kept"), "7", 1, id="e1")
    await live.publish(OrderNoted(WORD), "seven", 1, id="e2")
    await live.settle(Numbered)
    await erase(live, Numbered, aggregate="order/seven")
    assert await holders(live, WORD) == []
    assert await live.rows("numbered") == [(7, "kept")]


@pytest.mark.parametrize("sequence", ["contiguous", "monotonic", "unordered"])
async def test_rows_that_an_erase_died_before_are_erased_by_the_next_one(
    live: ConsumerHarness, sequence: str
) -> None:
    s = shop(live.stream, sequence=sequence)
    await live.migrate(s.Orders, s.Spend)
    await orders(live)
    await live.settle(s.Orders, s.Spend)
    await sent(live)
    with dying("erase.emptied"):
        await erase(live, s.Spend, s.Orders, aggregate="order/o1")
    await erase(live, s.Spend, s.Orders, aggregate="order/o1")
    assert await holders(live, WORD) == []
    assert await live.rows("spend") == [("ann", 1, 5)]
    for cls in (s.Orders, s.Spend):
        assert await is_right(live, cls)


@pytest.mark.parametrize("target", [{"aggregate": "order/o1"}, {"event": "e2"}])
async def test_a_message_that_another_consumer_has_not_come_to_is_left(
    live: ConsumerHarness, target: dict[str, Any]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await orders(live)
    await live.settle(s.Orders)
    await sent(live)
    done = await erase(live, s.Orders, s.Spend, messages=True, **target)
    assert [(one.deleted, one.unsettled) for one in done.streams] == [(0, done.streams[0].sequences)]
    await live.settle(s.Spend)
    assert await live.head(s.Spend, "order/o1") == (3, "clear", 0)
    again = await erase(live, s.Orders, s.Spend, messages=True, **target)
    assert [one.deleted for one in again.streams] == [len(done.streams[0].sequences)]
    live.tampered = True


@pytest.mark.parametrize("sequence", ["contiguous", "unordered"])
async def test_rows_of_events_that_come_while_it_is_planned_are_erased_too(
    live: ConsumerHarness, sequence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream, sequence=sequence)
    await live.migrate(s.Spend)
    await orders(live)
    await live.settle(s.Spend)
    planned, late = ErasedRows.plan, [OrderPlaced(WORD, 7)]

    async def meanwhile(rows: ErasedRows, *given: Any) -> RowsPlan:
        found = await planned(rows, *given)
        while late:
            await live.publish(late.pop(), "o1", 4, id="e5")
            await live.settle(s.Spend)
        return found

    monkeypatch.setattr(ErasedRows, "plan", meanwhile)
    await erase(live, s.Spend, aggregate="order/o1")
    assert await holders(live, WORD) == []
    assert await live.rows("spend") == [("ann", 1, 5)]
    assert await is_right(live, s.Spend)


async def test_what_comes_without_order_after_the_decision_is_new(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Spend)
    await orders(live)
    await live.settle(s.Spend)
    emptied, late = Eraser._emptied, [OrderPlaced("bob", 7)]

    async def meanwhile(eraser: Eraser, *given: Any) -> None:
        while late:
            await live.publish(late.pop(), "o1", 4, id="e5")
            await live.settle(s.Spend)
        await emptied(eraser, *given)

    monkeypatch.setattr(Eraser, "_emptied", meanwhile)
    await erase(live, s.Spend, aggregate="order/o1")
    assert (await live.states(s.Spend))["e5"] == "applied"
    assert await live.rows("spend") == [("ann", 1, 5), ("bob", 1, 7)]
    assert await is_right(live, s.Spend)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_reset_brings_no_erased_content_back_into_our_tables(
    live: ConsumerHarness, fails: bool
) -> None:
    s, policy = shop(live.stream), msgspec.structs.replace(live.policy, payload="always")
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("first"), "o1", 1, id="e1")
    await live.publish(OrderNoted(WORD), "o1", 2, id="e2", headers={"tracestate": f"shop={WORD}"})
    await live.settle(s.Orders, policy=policy)
    await erase(live, s.Orders, event="e2")
    s.trouble.poison.update(["first"] if fails else [])
    await reset(live, "Orders")
    await live.settle(s.Orders, policy=policy)
    assert (await live.states(s.Orders))["e2"] == ("parked" if fails else "discarded")
    assert await holders(live, WORD) == []
    s.trouble.poison.clear()
    if fails:
        async with live.verbs(s.Orders) as verbs:
            await verbs.retry("order/o1", ACT)
        await live.settle(s.Orders, policy=policy)
    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)


async def test_what_was_ignored_without_order_stays_erased_when_it_is_handled(live: ConsumerHarness) -> None:
    before = shop(live.stream, sequence="unordered").Spend
    await live.migrate(before)
    await orders(live)
    await live.settle(before)
    await erase(live, before, aggregate="order/o1")
    after = notes(live, "Spend", sequence="unordered")
    await RebuildHarness(live).rebuild(after, accept_differences=True)
    await reset(live, "Spend")
    await live.settle(after)
    assert await holders(live, WORD) == []


async def test_a_kept_generation_goes_also_where_live_has_no_row_of_it(live: ConsumerHarness) -> None:
    before, after = notes(live, "Spend"), shop(live.stream).Spend
    await live.migrate(before)
    await orders(live)
    await live.settle(before)
    await RebuildHarness(live).rebuild(after, accept_differences=True)
    await erase(live, after, event="e2")
    assert await holders(live, WORD) == []


@pytest.mark.parametrize("sequence", ["monotonic", "unordered"])
async def test_rows_whose_events_nothing_tells_of_are_named(live: ConsumerHarness, sequence: str) -> None:
    s = shop(live.stream, sequence=sequence)
    await live.migrate(s.Spend)
    await orders(live)
    await live.settle(s.Spend)
    await forgets_after(live, 1)
    await age(live, 100)
    policy = msgspec.structs.replace(live.policy, retention_s=50 * 86_400.0)
    await purge(live, s.Spend, archive="table", policy=policy)
    assert await live.states(s.Spend) == {}
    await live.nats.jetstream().purge_stream(live.stream.name)
    live.tampered = True
    done = await erase(live, s.Spend, aggregate="order/o1")
    assert rows_left(done.undone) == ["Spend"]


def rows_left(undone: Sequence[str]) -> list[str]:
    """Return the consumers of which rows are left."""
    return [line.split()[2].rstrip(":") for line in undone if line.startswith("rows of ")]


async def test_sql_without_order_is_rebuilt_without_versions(live: ConsumerHarness) -> None:
    journal = shop(live.stream, sequence="unordered").Journal
    await live.migrate(journal)
    await live.publish(OrderNoted(WORD), "o1", None, id="e1")
    await live.publish(OrderNoted("kept"), "o1", None, id="e2")
    await live.settle(journal)
    assert rows_left((await erase(live, journal, event="e1")).undone) == ["Journal"]
    await RebuildHarness(live).rebuild(journal, accept_differences=True)
    assert await live.rows("journal") == [("e2", "kept")]


async def test_rows_of_an_erased_event_that_had_several_are_folded_anew(live: ConsumerHarness) -> None:
    s = several(live.stream)
    await live.migrate(s.Lines, s.Stock)
    await live.publish(StockMoved("a", "x", "y", 1), "o1", 1, id="e1")
    await live.publish(StockMoved("a", "x", "y", 2), "o2", 1, id="e2")
    await live.settle(s.Lines, s.Stock)
    done = await erase(live, s.Lines, s.Stock, aggregate="order/o1")
    told = {one.consumer: one.rows for one in done.consumers}
    assert "2 rows are folded anew" in told["Stock"]
    assert await live.rows("stock") == [("x", "a", -2, 1), ("y", "a", 2, 1)]
    assert await is_right(live, s.Stock)


async def test_rows_that_an_erased_event_took_below_a_prefix_are_there_again(live: ConsumerHarness) -> None:
    s = several(live.stream)
    await live.migrate(s.Lines, s.Stock)
    await live.publish(StockMoved("a", "x", "y", 1), "o1", 1, id="e1")
    await live.publish(Placed(("p", "q"), (1, 1)), "o1", 2, id="l1")
    await live.publish(Closed("x"), "o2", 1, id="e2")
    await live.publish(Renamed("p", "r"), "o1", 3, id="l2")
    await live.settle(s.Lines, s.Stock)
    done = await erase(live, s.Lines, s.Stock, aggregate="order/o2")
    assert {one.consumer: one.rows for one in done.consumers}["Stock"] == "1 rows are folded anew"
    assert await live.rows("stock") == [("x", "a", -1, 1), ("y", "a", 1, 1)]
    assert [row[2] for row in await live.rows("lines", "2")] == ["r", "q"]
    done = await erase(live, s.Lines, event="l2")
    assert "2 rows are folded anew" in str(done.consumers[0].rows)
    assert [row[2] for row in await live.rows("lines", "2")] == ["p", "q"]
    assert await is_right(live, s.Stock)
    assert await is_right(live, s.Lines)


async def test_more_rows_below_a_prefix_than_can_be_folded_anew_are_for_a_rebuild(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = several(live.stream)
    monkeypatch.setattr(rows_below, "MOST_BELOW", 0)
    await live.migrate(s.Stock)
    await live.publish(StockMoved("a", "x", "y", 1), "o1", 1, id="e1")
    await live.publish(Closed("x"), "o2", 1, id="e2")
    await live.settle(s.Stock)
    done = await erase(live, s.Stock, aggregate="order/o2")
    assert "to be rebuilt: a handler with rows= took one of the events, and" in str(done.consumers[0].rows)
    assert await live.rows("stock") == [("y", "a", 1, 1)]
