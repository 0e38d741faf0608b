"""Lookups in a batch: one statement for all its events, a table that is missing, and rows that do not fit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.looking_up import RATES, TABLE, Seen, Sold, looking_up
from tests.support.waiting import eventually

from projectionist.projections.tables.table_key import MOST_ROWS
from projectionist.runner.batch import lookup_reader
from projectionist.runner.batch.lookup_reader import LookupUnavailable
from projectionist.runner.process.consumer_worker import ConsumerWorker

pytestmark = pytest.mark.asyncio


def told_of(worker: ConsumerWorker, what: str) -> Callable[[], Awaitable[bool]]:
    """Whether a worker waits for a table, and says so."""

    async def told() -> bool:
        return isinstance(worker.waits, LookupUnavailable) and what in str(worker.waits)

    return told


async def test_a_batch_reads_what_all_its_events_look_up_in_one_statement(live: ConsumerHarness) -> None:
    s = looking_up(live.stream)
    await live.pool.execute(TABLE)
    await live.pool.execute(RATES)
    await live.migrate(s.Taxed, s.Receipts)
    taken = {}
    async with batch_drivers(live, s.Taxed) as (driver,):
        connection = (await driver.session.ready())[0].connection
        for name, countries in (
            ("warm", ("DE",)),
            ("none", ()),
            ("one", ("DE",)),
            ("many", ("DE", "FR", "IT")),
        ):
            asked: list[object] = []
            events = [driver.read(Sold(countries, 1), f"{name}-{n}", 1) for n in range(300)]
            with connection.query_logger(asked.append):
                await driver.settle(*events)
            taken[name] = len(asked)
    assert taken == {
        "warm": taken["warm"],
        "none": taken["one"] - 1,
        "one": taken["one"],
        "many": taken["one"],
    }
    found = await live.fetch("select rates, count(*) from taxed group by rates order by rates")
    assert found == [(";", 300), ("DE=0.1900 FR=0.2000;", 300), ("DE=0.1900;", 600)]


async def test_a_batch_sees_the_table_as_it_is_now_and_a_reactor_does_too(live: ConsumerHarness) -> None:
    s = looking_up(live.stream)
    await live.pool.execute(TABLE)
    await live.pool.execute(RATES)
    await live.migrate(s.Taxed)
    async with batch_drivers(live, s.Taxed) as (driver,):
        await driver.settle(driver.read(Sold(("DE",), 1), "o", 1))
        await live.pool.execute("update tax_rates set rate = 0.16 where country = 'DE'")
        await driver.settle(driver.read(Sold(("DE",), 1), "o", 2), driver.read(Seen(), "o", 3))
    assert await live.rows("taxed") == [("o", "DE=0.1900;DE=0.1600;", 1)]
    await live.migrate(s.Receipts)
    await live.publish(Sold(("DE", "IT"), 1), "o", 1)
    await live.settle(s.Receipts)
    assert await inspection.rows(live, "intents", "body") == [(b'{"rate":"0.1600"}',)]


async def test_a_row_that_does_not_fit_fails_the_events_that_look_at_it_alone(
    live: ConsumerHarness,
) -> None:
    s = looking_up(live.stream)
    await live.pool.execute(TABLE)
    await live.pool.execute(RATES)
    await live.pool.execute("insert into tax_rates values ('XX', null)")
    await live.migrate(s.Taxed)
    many = tuple(f"{n}" for n in range(MOST_ROWS + 1))
    for name, countries in (("a", ("DE",)), ("b", ("XX",)), ("c", many), ("d", ("FR",))):
        await live.publish(Sold(countries, 1), name, 1)
    await live.settle(s.Taxed)
    assert await live.rows("taxed", "order_id") == [("a", "DE=0.1900;", 0), ("d", "FR=0.2000;", 0)]
    errors = await inspection.rows(live, "parked", "aggregate", "error", order="aggregate")
    assert errors == [
        ("order/b", "public.tax_rates.rate is null, and TaxRate does not declare it `| None`"),
        ("order/c", "taxes cannot be looked up: its key is one of more than 10,000, the most of one event"),
    ]


async def test_a_batch_that_looks_up_too_much_is_halved(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = looking_up(live.stream)
    await live.pool.execute(TABLE)
    await live.migrate(s.Taxed)
    monkeypatch.setattr(lookup_reader, "MOST_AT_ONCE", 3)
    async with batch_drivers(live, s.Taxed) as (driver,):
        events = [driver.read(Sold((f"{n}", f"{n}x"), 1), f"o-{n}", 1) for n in range(5)]
        assert len(await driver.settle(*events)) == 5
    assert len(await live.rows("taxed")) == 5


async def test_a_missing_table_is_told_at_start_and_waited_for_and_nothing_is_parked(
    live: ConsumerHarness,
) -> None:
    s = looking_up(live.stream)
    await live.migrate(s.Taxed)
    await live.publish(Sold(("DE",), 1), "o-1", 1)
    await live.publish(Seen(), "o-2", 1)
    async with live.running(s.Taxed) as (worker,):
        await eventually(told_of(worker, 'relation "public.tax_rates" does not exist'))
        await live.pool.execute(f"{TABLE}; {RATES}")  # in one transaction: an empty table is an answer
        await live.settled(s.Taxed)
        # Gone while it runs: the batch is rolled back, and waits, with those that look nothing up.
        await live.pool.execute("alter table tax_rates rename column rate to share")
        await live.publish(Sold(("FR",), 1), "o-1", 2)
        await live.publish(Seen(), "o-2", 2)
        await eventually(told_of(worker, 'column "rate" does not exist'))
        await live.pool.execute("alter table tax_rates rename column share to rate")
        await live.settled(s.Taxed)
    assert await live.rows("taxed", "order_id") == [("o-1", "DE=0.1900;FR=0.2000;", 0), ("o-2", "", 2)]
    outcomes = {outcome for (outcome,) in await inspection.rows(live, "counters", "outcome")}
    assert outcomes <= {"applied", "redelivered"}  # what waits long is delivered again
