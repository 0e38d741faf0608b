"""Erase: what goes, what stays, and that no guarantee suffers for it."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.erasing import ACT, erase, holders
from tests.support.rebuilding import RebuildHarness
from tests.support.retention import age, purge, sent
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import NotThere
from projectionist.projections import Projection, on
from projectionist.runner.admin.erasure_report import CannotErase
from projectionist.runner.admin.reset import Resetting
from projectionist.runner.verify.verify import Verified

pytestmark = pytest.mark.asyncio

WORD = "c4nary"


def is_right(found: Verified) -> bool:
    """Return whether all rows were compared, and none differs."""
    return (found.drifted, found.unsure, found.undecidable) == (0, 0, 0)


async def orders(live: ConsumerHarness) -> None:
    """One order that is to be forgotten, and one beside it, of one customer."""
    await live.publish(OrderPlaced("ann", 10), "o1", 1, id="e1")
    await live.publish(OrderNoted(WORD), "o1", 2, id="e2")
    await live.publish(OrderPaid(), "o1", 3, id="e3")
    await live.publish(OrderPlaced("ann", 5), "o2", 1, id="e4")


async def test_an_erased_aggregate_has_no_row_and_rebuild_and_verify_agree(live: ConsumerHarness) -> None:
    s, builders = shop(live.stream), RebuildHarness(live)
    await live.migrate(s.Orders)
    await orders(live)
    await live.settle(s.Orders)
    await sent(live)
    done = await erase(live, s.Orders, aggregate="order/o1")

    assert done.undone == []
    assert [(one.consumer, one.touched) for one in done.consumers] == [("Orders", {"inbox": 3, "intents": 1})]
    assert await live.states(s.Orders) == {"e1": "erased", "e2": "erased", "e3": "erased", "e4": "applied"}
    assert [row[0] for row in await live.rows("orders")] == ["o2"]
    assert await holders(live, WORD) == []
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)
    assert is_right(await builders.verify(s.Orders))
    before = await live.rows("orders")
    await builders.rebuild(s.Orders)
    assert await live.rows("orders") == before
    assert await inspection.rows(live, "decisions", "kind", "aggregate", "version", "upto") == [
        ("erase", "order/o1", 1, 3)
    ]


async def test_an_erased_event_that_comes_again_is_known_and_the_next_one_is_applied(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await orders(live)
    await live.settle(s.Orders)
    await sent(live)
    await erase(live, s.Orders, aggregate="order/o1")
    await live.publish(OrderNoted(WORD), "o1", 2, id="e2")
    await live.publish(OrderNoted("later"), "o1", 4, id="e5")
    await live.settle(s.Orders)

    assert (await live.states(s.Orders))["e2"] == "erased"
    assert await inspection.value(live, "duplicates", "id") == "e2"
    assert (await live.rows("orders"))[0] == ("o1", "new", 0, '["later"]')
    assert is_right(await RebuildHarness(live).verify(s.Orders))


async def test_rows_that_others_share_are_folded_anew(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    await orders(live)
    await live.settle(s.Spend)
    planned = await erase(live, s.Spend, aggregate="order/o1", plan=True)
    assert await live.rows("spend") == [("ann", 2, 15)], "a plan changes nothing"
    assert await inspection.count_decisions(live) == 0
    assert planned.consumers[0].rows == "1 rows are folded anew"

    await erase(live, s.Spend, aggregate="order/o1")
    assert await live.rows("spend") == [("ann", 1, 5)]
    assert is_right(await RebuildHarness(live).verify(s.Spend))


async def test_what_failed_and_what_waits_behind_it_is_stepped_over_without_content(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    s.trouble.poison.add(WORD)
    await orders(live)
    await live.settle(s.Orders)
    assert await live.head(s.Orders, "order/o1") == (1, "waiting", 2)
    assert len(await holders(live, WORD)) == 1, "the event, and what its handler said of it"

    done = await erase(live, s.Orders, aggregate="order/o1")
    assert done.consumers[0].touched == {"inbox": 3, "parked": 2}
    assert await holders(live, WORD) == []
    await live.settle(s.Orders)
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)
    assert await live.states(s.Orders) == {
        "e1": "erased",
        "e2": "discarded",
        "e3": "discarded",
        "e4": "applied",
    }
    assert is_right(await RebuildHarness(live).verify(s.Orders))


async def test_a_gap_before_an_erased_event_is_passed_when_it_is_filled(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 10), "o1", 1, id="e1")
    await live.publish(OrderNoted(WORD), "o1", 3, id="e3")
    await live.settle(s.Orders)
    await erase(live, s.Orders, event="e3")
    assert await holders(live, WORD) == []
    await live.publish(OrderPaid(), "o1", 2, id="e2")
    await live.settle(s.Orders)
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)
    assert (await live.states(s.Orders))["e3"] == "discarded"
    before = await live.rows("orders")
    await RebuildHarness(live).rebuild(s.Orders)
    assert await live.rows("orders") == before


async def test_what_is_not_settled_at_a_provider_keeps_everything_as_it_is(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await orders(live)
    await live.settle(s.Orders)
    with pytest.raises(CannotErase, match=r"1 intents are not settled.*ready.*projectionist outbox"):
        await erase(live, s.Orders, aggregate="order/o1")
    assert await inspection.count_decisions(live) == 0
    assert (await live.states(s.Orders))["e1"] == "applied"


@pytest.mark.parametrize("sequence", ["contiguous", "monotonic", "unordered"])
async def test_one_erased_event_is_left_out_of_its_row_in_any_order(
    live: ConsumerHarness, sequence: str
) -> None:
    s, builders = shop(live.stream, sequence=sequence), RebuildHarness(live)
    await live.migrate(s.Orders, s.Spend)
    await orders(live)
    await live.settle(s.Orders, s.Spend)
    await sent(live)
    done = await erase(live, s.Orders, s.Spend, event="e2")

    assert done.undone == []
    assert [(row[0], row[3]) for row in await live.rows("orders")] == [
        ("o1", '["placed", "paid"]'),
        ("o2", '["placed"]'),
    ]
    assert await live.rows("spend") == [("ann", 2, 15)]
    for cls in (s.Orders, s.Spend):
        assert is_right(await builders.verify(cls))
        before = await builders.rows_of(cls)
        await builders.rebuild(cls)
        assert await builders.rows_of(cls) == before


async def test_nothing_is_known_of_what_was_never_there(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    with pytest.raises(NotThere, match="nothing is known of order/o9"):
        await erase(live, s.Orders, aggregate="order/o9")
    with pytest.raises(NotThere, match="nothing is known of event 'e9'"):
        await erase(live, s.Orders, event="e9")


async def test_what_the_inbox_has_forgotten_is_erased_by_its_version(live: ConsumerHarness) -> None:
    s, builders = shop(live.stream), RebuildHarness(live)
    await live.migrate(s.Orders)
    await orders(live)
    await live.settle(s.Orders)
    await sent(live)
    await age(live, 100)
    await purge(live, s.Orders, archive="table")
    assert await live.states(s.Orders) == {}
    await erase(live, s.Orders, aggregate="order/o1")
    assert await holders(live, WORD) == []
    assert [row[0] for row in await live.rows("orders")] == ["o2"]
    assert is_right(await builders.verify(s.Orders))
    before = await live.rows("orders")
    await builders.rebuild(s.Orders)
    assert await live.rows("orders") == before


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_reset_waits_for_no_erased_event_and_applies_none(
    live: ConsumerHarness, deleted: bool
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await orders(live)
    await live.settle(s.Orders)
    await sent(live)
    await erase(live, s.Orders, aggregate="order/o1", messages=deleted)
    await live.publish(OrderNoted("later"), "o1", 4, id="e5")
    await live.settle(s.Orders)
    before = await live.rows("orders")
    async with live.connected() as connection:
        await Resetting(connection, live.nats, SCHEMA).reset("Orders", ACT)
    await live.settle(s.Orders)

    assert await live.rows("orders") == before
    assert await live.head(s.Orders, "order/o1") == (4, "clear", 0)
    assert is_right(await RebuildHarness(live).verify(s.Orders))
    live.tampered = deleted


async def test_a_handler_that_needs_the_event_refuses_the_erase(live: ConsumerHarness) -> None:
    class Strict(
        Projection,
        table="strict",
        key="order_id",
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
    ):
        """Takes no note of an order that was not placed."""

        order_id: str
        cents: int = 0

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.cents = event.cents

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            if not self.cents:
                raise ValueError("not placed")

    await live.migrate(Strict)
    await orders(live)
    await live.settle(Strict)
    with pytest.raises(CannotErase, match=r"handlers of Strict fail.*Erase the whole aggregate"):
        await erase(live, Strict, event="e1")
    assert await inspection.count_decisions(live) == 0
    assert (await live.states(Strict))["e1"] == "applied"
    await erase(live, Strict, event="e2")
    assert is_right(await RebuildHarness(live).verify(Strict))


async def test_an_open_build_refuses_it_and_a_kept_generation_goes(live: ConsumerHarness) -> None:
    s, builders = shop(live.stream), RebuildHarness(live)
    await live.migrate(s.Orders)
    await orders(live)
    await live.settle(s.Orders)
    await sent(live)
    async with builders.reading(s.Orders) as building:
        with pytest.raises(CannotErase, match="a build of Orders is open"):
            await erase(live, s.Orders, aggregate="order/o1")
    await building
    assert len(await builders.tables()) == 2
    done = await erase(live, s.Orders, aggregate="order/o1")
    assert [list(one.kept) for one in done.consumers] == [[1]]
    assert len(await builders.tables()) == 1
    assert await holders(live, WORD) == []


async def test_rows_written_by_sql_are_named_as_to_be_rebuilt(live: ConsumerHarness) -> None:
    s, builders = shop(live.stream), RebuildHarness(live)
    await live.migrate(s.Journal)
    await orders(live)
    await live.settle(s.Journal)
    done = await erase(live, s.Journal, aggregate="order/o1")
    assert "rows of Journal: its SQL wrote them" in done.undone[0]
    await builders.rebuild(s.Journal, accept_differences=True)
    assert await live.rows("journal") == []
