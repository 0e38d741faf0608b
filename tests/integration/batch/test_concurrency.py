"""Several processes on one consumer: nothing lost, nothing doubled, nobody waits in a circle."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.support import inspection
from tests.support.batch_driver import BatchDriver, Stalled, batch_drivers, stalled
from tests.support.consumer_harness import ConsumerHarness
from tests.support.reference_fold import decisions, facts, reckon
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import HANG_S, listening

from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.projections import Event
from projectionist.runner.failures.retry_on_new_code import retry_failed

pytestmark = pytest.mark.asyncio


def told(aggregate: int, version: int) -> Event:
    """The event of a version: placed, then notes, then paid."""
    if version == 1:
        return OrderPlaced(f"customer {aggregate % 7}", aggregate)
    return OrderPaid() if version % 10 == 0 else OrderNoted(f"{version}")


async def test_two_runners_on_one_durable_end_equal_to_the_reckoning(live: ConsumerHarness) -> None:
    """5,000 events of 50 aggregates, shuffled over windows and one in ten sent twice, and a view they share."""
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    chance = random.Random(5)
    events = [(a, v) for v in range(1, 101) for a in range(50)]
    events += chance.sample(events, 500)
    order = sorted(enumerate(events), key=lambda one: one[0] % 5_000 + chance.uniform(0, 750))
    await live.publish_all((told(a, v), f"o{a}", v, f"{a}:{v}") for _, (a, v) in order)

    with listening() as heard:
        await live.settle(s.Orders, s.Spend, processes=2, limits=Limits(max_rows=200), seconds=4 * HANG_S)

    expected = reckon(await facts(live), await decisions(live, "Orders"))
    assert await live.rows("orders") == expected.orders
    assert await live.rows("spend") == expected.spend
    assert set(expected.positions.values()) == {100}
    assert await live.fetch("select distinct version, head, parked from {s}.positions") == [(100, "clear", 0)]
    assert set(await inspection.rows(live, "intents", "source", "id")) == expected.receipts
    assert await inspection.count_intents(live) == 500
    assert await inspection.count_inbox(live, state="parked") == 0
    assert await live.unaccounted(s.Orders) == []
    assert await live.unaccounted(s.Spend) == []
    assert heard.counts["batch.outage"] == 0
    runners = await live.fetch("select count(*), min(batches) > 0 from {s}.runners group by consumer")
    assert runners == [(2, True), (2, True)]


async def test_two_first_orders_of_one_customer_lose_no_update(live: ConsumerHarness) -> None:
    """The shared row does not exist when either batch reads it."""
    s = shop(live.stream)
    await live.migrate(s.Spend)
    async with batch_drivers(live, s.Spend, drivers=8) as drivers:
        for round_ in range(10):
            await asyncio.gather(
                *(
                    driver.settle(driver.read(OrderPlaced(f"new {round_}", 1), f"o{round_}-{number}", 1))
                    for number, driver in enumerate(drivers)
                )
            )

    assert {row[1:] for row in await live.rows("spend")} == {(8, 8)}


@pytest.mark.parametrize("ends", ["commits", "rolls back"])
async def test_who_waits_for_an_identity_reads_what_became_of_it(live: ConsumerHarness, ends: str) -> None:
    """What a statement waited for is not in its own snapshot: the next statement reads it."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, drivers=2) as (first, second):
        reached, go_on = stalled(first, fails=ends == "rolls back")
        one = asyncio.create_task(first.settle(first.read(OrderPlaced("ann", 1), "o1", 1, id="a", seq=1)))
        await reached.wait()
        two = asyncio.create_task(second.settle(second.read(OrderPlaced("bob", 2), "o1", 1, id="a", seq=2)))
        await live.blocked()
        go_on.set()
        ended = await asyncio.gather(one, two, return_exceptions=True)

    told = await inspection.incidents(live)
    if ends == "commits":
        assert await live.value("select cents from orders") == 1
        assert told == [("identity_reuse", 2)]
    else:
        assert isinstance(ended[0], Stalled)
        assert await live.value("select cents from orders") == 2
        assert told == []


async def test_who_waits_for_a_position_sees_what_was_parked_behind_it(live: ConsumerHarness) -> None:
    """Both begin when neither position nor parked event is there: the filler has to find what the other parked."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, drivers=2) as (parker, filler):
        reached, go_on = stalled(parker)
        one = asyncio.create_task(parker.settle(parker.read(OrderPaid(), "o1", 2)))
        await reached.wait()
        two = asyncio.create_task(filler.settle(filler.read(OrderPlaced("ann", 1), "o1", 1)))
        await live.blocked()
        go_on.set()
        await asyncio.gather(one, two)

    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)
    assert (await live.rows("orders"))[0][3] == '["placed", "paid"]'


async def test_a_shared_row_that_appears_in_the_meantime_is_read_again(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    async with batch_drivers(live, s.Spend, drivers=2) as (first, second):
        reached, go_on = stalled(first)
        one = asyncio.create_task(first.settle(first.read(OrderPlaced("ann", 1), "o1", 1)))
        await reached.wait()  # it has read that there is no row
        with listening() as heard:
            await second.settle(second.read(OrderPlaced("ann", 2), "o2", 1))
            go_on.set()
            await one

    assert heard.counts["batch.again"] == 1
    assert await live.rows("spend") == [("ann", 2, 3)]


async def test_processes_never_wait_in_a_circle(live: ConsumerHarness) -> None:
    """Six of them hammer twenty aggregates and four shared rows with repeats, gaps, failures and retries."""
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    s.trouble.later.add("later")
    await live.migrate(s.Orders, s.Spend)
    before = await deadlocks(live)
    with listening() as heard:
        async with (
            batch_drivers(live, s.Orders, drivers=4) as drivers,
            batch_drivers(live, s.Spend, drivers=2) as others,
        ):
            await asyncio.gather(
                *(hammer(driver, random.Random(seed)) for seed, driver in enumerate([*drivers, *others]))
            )

    assert heard.counts["batch.committed"] >= 6 * BATCHES
    assert heard.counts["batch.outage"] == 0
    assert await deadlocks(live) == before
    applied = await live.fetch(
        "select p.aggregate from {s}.positions p join {s}.consumers c on c.number = p.consumer and c.name = 'Orders'"
        " left join {s}.inbox i on i.consumer = p.consumer and i.aggregate = p.aggregate"
        " and i.state in ('applied', 'ignored') group by p.aggregate, p.version having count(i.id) <> p.version"
    )
    assert applied == []  # versions applied are one to n, each once


BATCHES = 60
"""Of each process that hammers."""


async def hammer(driver: BatchDriver, chance: random.Random) -> None:
    """Random batches over the same few aggregates: every process brings every event, in an order of its own."""
    versions = {f"o{n}": 1 for n in range(20)}
    for _ in range(BATCHES):
        batch = []
        for _ in range(chance.randrange(1, 40)):
            aggregate = chance.choice(list(versions))
            version = max(1, versions[aggregate] + chance.choice([-2, -1, 0, 0, 0, 0, 1, 2]))
            versions[aggregate] = max(versions[aggregate], version + 1)
            batch.append(event_of(driver, aggregate, version))
        await driver.settle(*batch)
        if chance.random() < 0.3:
            due, entries = await driver.due(20)
            await driver.settle(due=due, entries=entries)


def event_of(driver: BatchDriver, aggregate: str, version: int) -> Any:
    """The same event for whoever asks, some of them trouble."""
    seq = int(aggregate[1:]) * 100_000 + version
    if version % 3 == 1:
        return driver.read(OrderPlaced(f"c{version % 4}", 1), aggregate, version, seq=seq)
    text = "later" if version % 17 == 0 else "bad" if version % 101 == 0 else "fine"
    return driver.read(OrderNoted(text), aggregate, version, seq=seq)


async def test_shared_rows_are_locked_and_made_in_one_order(live: ConsumerHarness) -> None:
    """Every process brings orders of its own, of the same customers, old ones and new ones, in any order."""
    s = shop(live.stream)
    await live.migrate(s.Spend)

    async def sell(driver: BatchDriver, seed: int) -> None:
        chance = random.Random(seed)
        for number in range(BATCHES // 2):
            customers = [f"old {n}" for n in range(15)] + [f"new {number} {n}" for n in range(15)]
            chance.shuffle(customers)
            batch = [
                driver.read(OrderPlaced(name, 1), f"{seed}-{number}-{n}", 1)
                for n, name in enumerate(customers)
            ]
            await driver.settle(*batch)

    with listening() as heard:
        async with batch_drivers(live, s.Spend, drivers=4) as drivers:
            await asyncio.gather(*(sell(driver, seed) for seed, driver in enumerate(drivers)))

    assert await live.value("select sum(cents) from spend") == 4 * (BATCHES // 2) * 30
    assert heard.counts["batch.outage"] == 0
    assert await deadlocks(live) == 0


async def deadlocks(live: ConsumerHarness) -> int:
    """How many the server has ended in this database, as it says after its statistics have been flushed."""
    await live.pool.execute("select pg_stat_clear_snapshot()")
    return int(await live.value("select deadlocks from pg_stat_database where datname = current_database()"))


async def test_rearming_while_batches_run_never_waits_in_a_circle(live: ConsumerHarness) -> None:
    """Re-arming locks the same positions as batches do, and in the same order."""
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    with listening() as heard:
        async with batch_drivers(live, s.Orders, drivers=2) as drivers:
            names = [f"o{n:02}" for n in range(40)]
            await drivers[0].settle(*(drivers[0].read(OrderNoted("bad"), name, 1) for name in names))
            following = 2

            async def followers(driver: BatchDriver, seed: int) -> None:
                nonlocal following
                chance = random.Random(seed)
                for version in range(2, BATCHES // 2, 2):
                    chance.shuffle(names)
                    await driver.settle(
                        *(driver.read(OrderNoted("x"), name, version + seed) for name in names)
                    )
                following -= 1

            async def rearm() -> None:
                while following:
                    await live.pool.execute(
                        "update projectionist.parked set code = 'old' where cause = 'failed'"
                    )
                    await retry_failed(live.access, drivers[0].consumer, 1_000)

            await asyncio.gather(followers(drivers[0], 0), followers(drivers[1], 1), rearm())

    assert heard.counts["batch.outage"] == 0
    assert await deadlocks(live) == 0
