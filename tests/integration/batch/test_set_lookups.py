"""Lookups of other views of the set in a batch: one statement each, own writes seen, and what no batch writes."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator

import pytest
from tests.support import inspection
from tests.support.batch_driver import BatchDriver, batch_drivers, stalled
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.set_lookups import Folded, Happened, Left, Named, Ordered, Paid, folded, looking_set
from tests.support.waiting import eventually

from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.runner.batch import lookup_reader
from projectionist.runner.batch.lookup_reader import LookupUnavailable

pytestmark = pytest.mark.asyncio

TABLES = ["customers", "summary", "lines"]
NAMES = ["ann", "bob", "cid"]


async def tables(live: ConsumerHarness) -> Folded:
    """What the tables of the set hold."""
    asked = [
        (name.partition("/")[2], json.loads(body))
        for name, body in await inspection.rows(live, "intents", "aggregate", "body")
    ]
    return Folded(
        await live.rows("customers"),
        await live.rows("summary"),
        await live.rows("lines", "1, 2"),
        sorted((name, body["nth"], body["about"]) for name, body in asked),
    )


def without_numbers(found: Folded) -> Folded:
    """The same, without what depends on the order in which orders of one customer were applied."""
    return found._replace(letters=sorted((name, 0, about) for name, _, about in found.letters))


def named() -> list[Happened]:
    """The names of all customers, before anything else."""
    return [(f"c{at}", 1, Named(name)) for at, name in enumerate(NAMES)]


def histories(orders: int, chance: random.Random) -> Iterator[Happened]:
    """Orders that are placed, paid, placed anew and paid; of some an event fails, in the third view or in the last."""
    for number in range(orders):
        name, poisoned = f"o{number:02}", chance.choice([1, 2, 3, 4]) if number % 9 == 4 else None
        for version in range(1, 5):
            customer = f"c{number % 3}"
            bad = version == poisoned
            if version % 2:
                prices = tuple(chance.randint(1, 9) for _ in range(chance.randint(0, 3)))
                yield name, version, Ordered(customer, (*prices, -1) if bad else prices)
            else:
                yield name, version, Paid(customer, 0 if bad else chance.randint(1, 9))


async def test_lookups_equal_an_independent_fold_under_repeats_disorder_and_poison(
    live: ConsumerHarness,
) -> None:
    """By two runners: one event in five sent twice, all shuffled, names of customers before all that looks them up."""
    shop, chance = looking_set(live.stream), random.Random(11)
    await live.migrate(shop.Shop)
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in named())
    await live.settle(shop.Shop)
    events = list(histories(40, chance))
    sent = [*events, *chance.sample(events, len(events) // 5)]
    chance.shuffle(sent)
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in sent)

    await live.settle(shop.Shop, processes=2, limits=Limits(max_rows=30))

    found, expected = await tables(live), folded([*named(), *events])
    assert without_numbers(found) == without_numbers(expected)
    assert len(found.letters) > 50
    assert await inspection.count(live, "positions", head="waiting") == 4
    assert await live.unaccounted(shop.Shop) == []


async def deliver(driver: BatchDriver, events: list[Happened], size: int) -> None:
    """Settle these events in batches of this size."""
    for start in range(0, len(events), size):
        batch = events[start : start + size]
        await driver.settle(*(driver.read(event, name, version) for name, version, event in batch))


@pytest.mark.parametrize("size", [1, 7, 1_000])
async def test_a_later_event_sees_what_earlier_ones_of_its_batch_have_written(
    live: ConsumerHarness, size: int
) -> None:
    """A customer is named, ordered for, renamed, removed: whatever stands in one batch with it."""
    events: list[Happened] = [
        ("o1", 1, Ordered("c1", (1,))),
        ("c1", 1, Named("ann")),
        ("o2", 1, Ordered("c1", (1,))),
        ("o2", 2, Paid("c1", 5)),
        ("c1", 2, Named("eve")),
        ("o3", 1, Ordered("c1", (1,))),
        ("o2", 3, Paid("c1", 2)),
        ("c1", 3, Left()),
        ("o4", 1, Ordered("c1", ())),
        ("o2", 4, Ordered("c1", (3, 4))),
    ]
    shop = looking_set(live.stream)
    await live.migrate(shop.Shop)
    async with batch_drivers(live, shop.Shop) as (driver,):
        await deliver(driver, events, size)
    found = await tables(live)
    assert found == folded(events)
    assert [row[1] for row in found.summary] == ["?", "?", "eve", "?"]
    assert found.letters == [("o2", 1, "ann:ann:5"), ("o2", 2, "eve:ann:7")]


async def test_what_the_batch_does_not_hold_is_read_in_one_statement_a_view(live: ConsumerHarness) -> None:
    """However many events; and in none where the batch holds all that is looked up."""
    shop = looking_set(live.stream)
    await live.migrate(shop.Shop)
    taken = {}
    async with batch_drivers(live, shop.Shop) as (driver,):
        await driver.settle(*(driver.read(event, name, version) for name, version, event in named()))
        for name, many in (("warm", 5), ("few", 2), ("many", 200)):
            orders: list[Happened] = [(f"{name}{n}", 1, Ordered(f"c{n % 3}", (1,))) for n in range(many)]
            taken[name] = await _places(driver, orders)
        own: list[Happened] = [("few0", 2, Paid("c0", 1)), ("few1", 2, Paid("c1", 1))]
        taken["all held"] = await _places(driver, own)
    assert taken["few"] == taken["many"] == ["summary", "lines", "customers", "summary", "lines"]
    assert taken["all held"] == ["customers", "summary", "customers", "summary"], "one reads, one writes"


async def _places(driver: BatchDriver, events: list[Happened]) -> list[str]:
    """The tables of views that a batch of these events goes to, statement by statement."""
    store, _ = await driver.session.ready()
    found: list[str] = []
    with store.connection.query_logger(lambda one: found.append(one.query)):
        await driver.settle(*(driver.read(event, name, version) for name, version, event in events))
    return [table for text in found for table in TABLES if f"{table}__g1" in text]


async def test_what_is_looked_up_is_not_locked_and_is_as_of_the_batchs_own_locks(
    live: ConsumerHarness,
) -> None:
    """A batch waits for the row of a customer that another writes, and sees what that has committed."""
    shop = looking_set(live.stream)
    await live.migrate(shop.Shop)
    async with batch_drivers(live, shop.Shop) as (one,), batch_drivers(live, shop.Shop) as (other,):
        await other.settle(*(other.read(event, name, version) for name, version, event in named()))
        reached, go_on = stalled(one)
        naming = asyncio.create_task(
            one.settle(one.read(Named("new"), "c0", 2), one.read(Named("new"), "c1", 2))
        )
        await reached.wait()
        # It looks up a customer whose row is being written, and waits for nobody.
        await other.settle(other.read(Ordered("c1", ()), "o1", 1))
        waits = asyncio.create_task(
            other.settle(other.read(Paid("c0", 1), "o2", 1), other.read(Ordered("c1", ()), "o2", 2))
        )
        await eventually(lambda: _waiting(live))
        go_on.set()
        await asyncio.gather(naming, waits)
    assert [row[:2] for row in await live.rows("summary")] == [("o1", "bob"), ("o2", "new")]


async def _waiting(live: ConsumerHarness) -> bool:
    asked = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    return bool(await live.pool.fetchval(asked))


async def test_a_failing_view_gives_back_what_others_were_to_look_up(live: ConsumerHarness) -> None:
    """The sum that a failed event has put into a row is not seen by the next one."""
    shop = looking_set(live.stream)
    await live.migrate(shop.Shop)
    events: list[Happened] = [
        ("c1", 1, Named("ann")),
        ("o1", 1, Paid("c1", 0)),
        ("o2", 1, Paid("c1", 3)),
        ("c1", 2, Named("")),
        ("o3", 1, Ordered("c1", (1, -1))),
        ("o4", 1, Ordered("c1", (1,))),
    ]
    async with batch_drivers(live, shop.Shop) as (driver,):
        await deliver(driver, events, 10)
    found = await tables(live)
    assert found == folded(events)
    assert found.letters == [("o2", 1, "ann::3")]


async def test_a_batch_that_looks_up_too_much_is_halved(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = looking_set(live.stream)
    await live.migrate(shop.Shop)
    monkeypatch.setattr(lookup_reader, "MOST_AT_ONCE", 3)
    async with batch_drivers(live, shop.Shop) as (driver,):
        events = [driver.read(Ordered(f"c{n}", ()), f"o{n}", 1) for n in range(9)]
        assert len(await driver.settle(*events)) > 1
    assert len(await live.rows("summary")) == 9


async def test_what_no_batch_writes_cannot_be_looked_up_and_nothing_is_parked(live: ConsumerHarness) -> None:
    """A view is left out while it is looked up: the consumer waits, says for what, and goes on."""
    shop = looking_set(live.stream)
    await live.migrate(shop.Shop)
    await live.publish(Named("ann"), "c1", 1)
    await live.settle(shop.Shop)
    await _set(live, "detached")
    await live.publish(Ordered("c1", (1,)), "o1", 1)
    async with live.running(shop.Shop) as (worker,):

        async def told() -> bool:
            return isinstance(worker.waits, LookupUnavailable)

        await eventually(told)
        assert "Shop.Summary looks up Customer, which is no live view of Shop" in str(worker.waits)
        await _set(live, "live")
        await live.settled(shop.Shop)
    assert await live.rows("summary") == [("o1", "ann", 1, 0)]
    assert await inspection.count(live, "parked") == 0


async def _set(live: ConsumerHarness, state: str) -> None:
    number = await inspection.value(live, "views", "number", name="Customer")
    async with live.pool.acquire() as connection:
        await connection.execute(Statements("projectionist.runner", SCHEMA)["set_view_state"], number, state)
