"""Sets of views in the database: one inbox, one position, one transaction, one verdict."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import inspection
from tests.support.app_waiter import waiting
from tests.support.batch_driver import BatchDriver, batch_drivers, stalled
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.view_sets import Cancelled, Folded, Happened, Paid, Placed, folded, view_set
from tests.support.waiting import HANG_S

from projectionist.core.operator import Act
from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.projections import Event
from projectionist.projections.compiled.definition import consumer_definition
from projectionist.runner import App
from projectionist.runner.app import AppError
from projectionist.runner.batch.consumer import Superseded

pytestmark = pytest.mark.asyncio
ACT = Act("ann", "tried")

TABLES = ["summary", "lines", "spend"]
"""In the order of their views' numbers."""


async def tables(live: ConsumerHarness) -> Folded:
    """What the tables of the set hold."""
    intents = await inspection.rows(live, "intents", "aggregate", "body")
    return Folded(
        await live.rows("summary"),
        await live.rows("lines", "1, 2"),
        await live.rows("spend"),
        sorted((name.partition("/")[2], json.loads(body)["cents"]) for name, body in intents),
    )


def histories(orders: int, chance: random.Random) -> Iterator[Happened]:
    """Orders that are placed, paid in parts, placed anew and cancelled; of some an event fails in one of the views."""
    for number in range(orders):
        name, poisoned = f"o{number:02}", chance.choice([2, 4, 6]) if number % 9 == 4 else None
        for version in range(1, 7):
            yield name, version, happened(version, number, chance, poison=version == poisoned)


def happened(version: int, number: int, chance: random.Random, *, poison: bool) -> Event:
    """The event of a version."""
    if version in {1, 4}:
        prices = tuple(chance.randint(1, 9) for _ in range(chance.randint(0, 3)))
        return Placed(f"customer {number % 5}", (*prices, -1) if poison else prices)
    if version == 6:
        return Paid(0) if poison else Cancelled()
    return Paid(0 if poison else chance.randint(1, 9))


async def test_a_set_equals_an_independent_fold_under_repeats_disorder_and_poison(
    live: ConsumerHarness,
) -> None:
    """By two runners: one event in five sent twice, all shuffled; some fail in the second view, some in the last."""
    shop, chance = view_set(live.stream), random.Random(3)
    events = list(histories(40, chance))
    sent = [*events, *chance.sample(events, len(events) // 5)]
    chance.shuffle(sent)
    await live.migrate(shop.Shop)
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in sent)

    await live.settle(shop.Shop, processes=2, limits=Limits(max_rows=30))

    expected = folded(events)
    assert await tables(live) == expected
    assert len(expected.lines) > 0, "or the last events of all orders have been cancelled"
    assert await inspection.count(live, "positions", head="waiting") == 4
    assert await live.unaccounted(shop.Shop) == []
    assert len(set(await inspection.rows(live, "inbox", "consumer"))) == 1


async def test_a_failing_view_leaves_no_trace_in_the_others(live: ConsumerHarness) -> None:
    """The aggregate waits in all of them, and what is parked says which view it was."""
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    async with batch_drivers(live, shop.Shop) as (driver,):
        await driver.settle(
            driver.read(Placed("ann", (5, 6)), "o1", 1), driver.read(Placed("bob", ()), "o2", 1)
        )
        before = await tables(live)
        poison = driver.read(Placed("ann", (7, -1)), "o1", 2)
        await driver.settle(poison, driver.read(Paid(3), "o1", 3))
        assert await tables(live) == before

        await driver.settle(driver.read(Paid(2), "o2", 2), driver.read(Paid(0), "o2", 3))

    assert (await tables(live)).receipts == [("o2", 2), ("o2", 2)], "one of each view that asks for it"
    assert await _parked(live) == [
        ("order/o1", 2, "failed", "Lines", 'Lines row ["o1",1]: less than nothing'),
        ("order/o1", 3, "blocked", None, None),
        ("order/o2", 3, "failed", "Receipts", "Receipts: nothing was paid"),
    ]


async def _parked(live: ConsumerHarness) -> list[tuple[Any, ...]]:
    """What is parked, with the name of the view that failed."""
    named = dict(await inspection.rows(live, "views", "number", "name"))
    fields = "aggregate", "version", "cause", "view", "error"
    rows = await inspection.rows(live, "parked", *fields, order="aggregate, version")
    return [(name, version, cause, named.get(view), error) for name, version, cause, view, error in rows]


async def test_intents_of_two_views_of_one_slot_have_a_key_of_each(live: ConsumerHarness) -> None:
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    async with batch_drivers(live, shop.Shop) as (driver,):
        await driver.settle(driver.read(Paid(3), "o1", 1))

    named = dict(await inspection.rows(live, "views", "number", "name"))
    asked = await inspection.rows(live, "intents", "view", "slot", "key")
    assert sorted((named[view], slot) for view, slot, _ in asked) == [
        ("Receipts", "Receipt"),
        ("Summary", "Receipt"),
    ]
    assert len({key for _, _, key in asked}) == 2


async def test_the_control_row_is_one_statement_and_each_view_costs_two(live: ConsumerHarness) -> None:
    """However many views: what holds for them is read at once, and the rows of each are read and written at once."""
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    async with batch_drivers(live, shop.Shop) as (driver,):
        await _statements(driver, "o1")  # decides whose ids are keys
        logged = await _statements(driver, "o2")

    assert sum(".views" in one for one in logged) == 1, "the control row, and nothing else of the views"
    places = [table for text in logged for table in TABLES if f"{table}__g1" in text]
    assert places == ["summary", "lines", "spend", "summary", "lines", "spend"]


async def _statements(driver: BatchDriver, order: str) -> list[str]:
    store, _ = await driver.session.ready()
    found: list[str] = []
    with store.connection.query_logger(lambda one: found.append(one.query)):
        await driver.settle(*(driver.read(Placed("ann", (1, 2)), f"{order}-{n}", 1) for n in range(20)))
    return found


async def test_processes_that_list_views_in_two_orders_lock_rows_in_one(live: ConsumerHarness) -> None:
    """By the numbers of the views: both write the row of one customer, and the rows of different orders."""
    shop, turned = view_set(live.stream), view_set(live.stream, order=[2, 3, 1, 0])
    await live.migrate(shop.Shop)
    async with (
        batch_drivers(live, shop.Shop) as (one,),
        batch_drivers(live, turned.Shop) as (other,),
    ):
        for n, driver in enumerate((one, other)):
            logged = await _statements(driver, f"x{n}")
            assert [table for text in logged for table in TABLES if f"{table}__g1" in text][:3] == TABLES
        for number in range(10):
            await asyncio.gather(
                *(
                    driver.settle(driver.read(Placed("ann", (1,)), f"o{number}-{n}", 1))
                    for n, driver in enumerate((one, other))
                )
            )

    assert await live.rows("spend") == [("ann", 60, 140)]


async def test_code_that_lacks_a_live_view_stops_and_what_is_not_live_is_left_out(
    live: ConsumerHarness,
) -> None:
    """A process sleeps while a view is left out: its next batch goes on with the others."""
    shop, fewer = view_set(live.stream), view_set(live.stream, order=[0, 1, 3])
    await live.migrate(shop.Shop)
    async with batch_drivers(live, shop.Shop) as (driver,):
        await driver.settle(driver.read(Placed("ann", (5,)), "o1", 1))
        code = driver.consumer.code
        with pytest.raises(
            Superseded, match=r"feeds the view 'Spend', which this code lacks.*Deploy code that lists it"
        ):
            await batch_drivers(live, fewer.Shop).__aenter__()

        await _set(live, "detached")
        await driver.settle(driver.read(Placed("bob", (6,)), "o2", 1))
        assert driver.consumer.code != code, "what failed on the views together is tried again"
        async with batch_drivers(live, fewer.Shop) as (other,):
            await other.settle(other.read(Placed("cid", (7,)), "o3", 1))
            await _set(live, "live")
            with pytest.raises(Superseded):
                await other.settle(other.read(Paid(1), "o3", 2))

    assert [row[0] for row in await live.rows("summary")] == ["o1", "o2", "o3"]
    assert await live.rows("spend") == [("ann", 1, 5)]


async def _set(live: ConsumerHarness, state: str) -> None:
    """Give the view of what customers spend another state, as `views` does."""
    number = await inspection.value(live, "views", "number", name="Spend")
    async with live.pool.acquire() as connection:
        await connection.execute(Statements("projectionist.runner", SCHEMA)["set_view_state"], number, state)


async def test_a_reader_that_waited_sees_all_views_at_one_version(live: ConsumerHarness) -> None:
    """While a batch of another version is open: a statement that joins them sees neither half of it."""
    shop = view_set(live.stream)
    await live.migrate(shop.Shop)
    app = waiting(App(projections=[shop.Shop], settings=live.settings), live.settings)
    joined = "select s.lines, count(l) from summary s left join lines l using (order_id) group by s.lines"
    async with batch_drivers(live, shop.Shop, drivers=2) as (driver, other):
        await driver.settle(driver.read(Placed("ann", (1, 2)), "o1", 1))
        assert (await app.wait_for(shop.Shop, "order/o1", 1, timeout_s=HANG_S)).is_applied
        reached, go_on = stalled(other)
        late = asyncio.create_task(other.settle(other.read(Cancelled(), "o1", 2)))
        await reached.wait()
        assert await live.fetch(joined) == [(2, 2)]
        go_on.set()
        await late
        assert (await app.wait_for("Shop", "order/o1", 2, timeout_s=HANG_S)).is_applied
        assert await live.fetch(joined) == [(0, 0)]
    with pytest.raises(
        AppError, match=r"'Lines' is a view of the set 'Shop', which goes as a whole. Name Shop"
    ):
        await app.wait_for("Lines", "order/o1", 2)


async def test_a_lost_event_holds_its_aggregate_in_all_views_until_it_is_given_up(
    live: ConsumerHarness,
) -> None:
    """Of three orders a version is nowhere: what came before stands in all views, and then what is left."""
    shop, events = view_set(live.stream), list(histories(30, random.Random(5)))
    lost = {"o03": 2, "o07": 1, "o11": 5}
    await live.migrate(shop.Shop)
    left = [one for one in events if lost.get(one[0]) != one[1]]
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in left)

    async with live.running(shop.Shop, processes=2, limits=Limits(max_rows=30)):
        await live.settled(shop.Shop)
        for name in lost:
            await inspection.reaches("waiting", inspection.head_state, live, f"order/{name}")
        assert await tables(live) == folded(one for one in events if one[1] < lost.get(one[0], 99))
        async with live.verbs(shop.Shop) as verbs:
            for name, version in lost.items():
                await verbs.accept_gap(f"order/{name}", version, version, ACT)
        for name in lost:
            await inspection.reaches("clear", inspection.head_state, live, f"order/{name}")

    assert await tables(live) == folded(left)
    assert await live.unaccounted(shop.Shop) == []


async def test_new_code_of_one_view_takes_over_from_old_under_load(
    live: ConsumerHarness,
) -> None:
    """Two old runners are at work; the new one adopts its code at its start, and they stop at their next batches."""
    old, new, chance = view_set(live.stream), view_set(live.stream, edition=2), random.Random(6)
    assert code_of(old) != code_of(new)
    events = list(histories(60, chance))
    sent = [*events, *chance.sample(events, len(events) // 5)]
    chance.shuffle(sent)
    half = len(sent) // 2

    async def publish(some: list[Happened]) -> None:
        await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in some)

    async def replaced() -> None:
        async with live.running(old.Shop, processes=2, limits=Limits(max_rows=10)):
            await publish(sent[:half])
            async with live.running(new.Shop, limits=Limits(max_rows=10)):
                await publish(sent[half:])
                await live.settled(new.Shop)
                for number in range(100):  # of which each takes the batch of one of them
                    await live.publish(Placed("late", (1,)), f"late{number}", 1, id=f"late{number}:1")
                    await live.settled(new.Shop)

    await live.migrate(old.Shop)
    with pytest.raises(Superseded, match="newer code"):
        await replaced()
    await live.settle(new.Shop, processes=2)

    late = await inspection.count(live, "inbox") - len(events)
    assert await tables(live) == folded(
        [*events, *((f"late{n}", 1, Placed("late", (1,))) for n in range(late))]
    )
    assert await live.unaccounted(new.Shop) == []


def code_of(shop: Any) -> bytes:
    """The fingerprint of the code of a set."""
    return consumer_definition(shop.Shop).code
