"""Kinds and orders of consumers: without order, monotonic, reactors, and SQL of one's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, mended, shop
from tests.support.waiting import listening

from projectionist.core.operator import Act

pytestmark = pytest.mark.asyncio
ACT = Act("ops", "the test wants it")


async def test_without_order_a_failing_event_waits_alone_and_all_others_go_on(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for version, event in enumerate([OrderPlaced("ann", 1), OrderNoted("bad"), OrderNoted("good")], 1):
        await live.publish(event, "o1", version, id=f"e{version}")
    await live.publish(OrderPaid(), "o1", 9, id="e9")

    await live.settle(s.Orders)

    assert await live.rows("orders") == [("o1", "paid", 1, '["placed", "good", "paid"]')]
    assert await live.states(s.Orders) == {"e1": "applied", "e2": "parked", "e3": "applied", "e9": "applied"}
    assert await inspection.rows(live, "parked", "id", "ordered", "cause", "due") == [
        ("e2", False, "failed", None)
    ]
    assert await inspection.count(live, "positions") == 0
    assert await live.unaccounted(s.Orders) == []


async def test_without_order_a_retry_has_its_own_schedule_and_budget(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.later.add("never")
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("never"), "o1", None, id="a")
    async with live.running(s.Orders):
        await inspection.reaches(3, inspection.value, live, "parked", "attempts", due=None)

    s.trouble.later.clear()
    async with live.verbs(s.Orders) as verbs:
        await verbs.retry_entry(("shop", "a"), ACT)
    await live.settle(s.Orders)

    assert await live.states(s.Orders) == {"a": "applied"}
    assert await inspection.count_parked(live) == 0


async def test_without_order_two_processes_that_find_the_same_event_due_try_it_once(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.later.add("never")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, drivers=2) as (one, other):
        await one.settle(one.read(OrderNoted("never"), "o1", None, id="a"))
        await live.pool.execute("update projectionist.parked set due = clock_timestamp() - interval '1 s'")
        _, entries = await other.due(10)
        assert entries == [("shop", "a")]
        await live.pool.execute("update projectionist.parked set due = due + interval '1 hour'")
        await other.settle(entries=entries)

    assert await inspection.parked_attempts(live) == 1


async def test_without_order_new_code_tries_a_sample_and_then_the_rest(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(9):
        await live.publish(OrderNoted("bad"), f"o{number}", None)
    await live.settle(s.Orders)
    assert await inspection.count_parked(live) == 9

    with listening() as heard:
        async with live.running(mended(live.stream, sequence="unordered")):
            await heard.wait("rearm.sampled")
            await heard.wait("rearm.released")
            await inspection.reaches(0, inspection.count_parked, live)

    assert len(await live.rows("orders")) == 9


async def test_without_order_new_code_that_fails_too_is_told_once(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(9):
        await live.publish(OrderNoted("bad"), f"o{number}", None)
    await live.settle(s.Orders)

    with listening() as heard:
        async with live.running(mended(live.stream, sequence="unordered", digests=frozenset())):
            await heard.wait("rearm.failed")
            await heard.wait("heart.beat", heard.counts["heart.beat"] + 3)

    assert heard.counts["rearm.failed"] == 1
    assert await live.value("select sum(attempts) from {s}.parked") == 9 + 5


async def test_without_order_an_identity_is_still_applied_once(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", None, id="a")
    again = await live.publish(OrderPlaced("ann", 1), "o1", None, id="a")
    other = await live.publish(OrderPlaced("ann", 2), "o1", None, id="a")

    await live.settle(s.Orders)

    assert (await live.rows("orders"))[0][3] == '["placed"]'
    assert await inspection.rows(live, "duplicates", "seq") == [(again,)]
    assert await inspection.incidents(live) == [("identity_reuse", other)]


async def test_monotonic_order_takes_the_newest_and_drops_what_comes_after_it(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="monotonic")
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 2, id="two")
    await live.publish(OrderPaid(), "o1", 7, id="seven")
    await live.settle(s.Orders)
    await live.publish(OrderNoted("old"), "o1", 5, id="five")

    await live.settle(s.Orders)

    assert await live.rows("orders") == [("o1", "paid", 1, '["placed", "paid"]')]
    assert await live.states(s.Orders) == {"two": "applied", "seven": "applied", "five": "stale"}
    assert await live.head(s.Orders, "order/o1") == (7, "clear", 0)
    assert await live.unaccounted(s.Orders) == []


async def test_monotonic_order_applies_nothing_over_an_event_that_failed(live: ConsumerHarness) -> None:
    """By its number the next one would fit: the head is asked first."""
    s = shop(live.stream, sequence="monotonic")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderNoted("bad"), "o1", 5)
    await live.settle(s.Orders)
    await live.publish(OrderPaid(), "o1", 6)
    await live.settle(s.Orders)
    assert await live.head(s.Orders, "order/o1") == (1, "waiting", 2)

    s.trouble.poison.clear()
    async with live.verbs(s.Orders) as verbs:
        await verbs.retry("order/o1", ACT)
    await live.settle(s.Orders)

    assert (await live.rows("orders"))[0][3] == '["placed", "bad", "paid"]'
    assert await live.head(s.Orders, "order/o1") == (6, "clear", 0)


async def test_a_reactor_has_intents_and_positions_and_no_table(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Mailer)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderPaid(), "o1", 2)
    await live.publish(OrderNoted("bad"), "o2", 1)
    await live.publish(OrderPaid(), "o2", 2)

    await live.settle(s.Mailer)

    assert await live.fetch("select convert_from(body, 'utf8') from {s}.intents") == [('{"order_id":"o1"}',)]
    assert await live.head(s.Mailer, "order/o1") == (2, "clear", 0)
    assert await live.head(s.Mailer, "order/o2") == (0, "waiting", 2)
    assert await live.unaccounted(s.Mailer) == []


@pytest.mark.parametrize(
    ("note", "error"),
    [
        ("fails", "DivisionByZeroError"),
        ("swallows", "InFailedSQLTransactionError"),
        ("miscounts", "InterfaceError"),
        ("x" * 30, "CheckViolationError"),
    ],
    ids=["fails", "swallows", "miscounts", "breaks a constraint"],
)
async def test_sql_that_fails_takes_back_its_event_alone_and_is_tried_again(
    live: ConsumerHarness, note: str, error: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Journal)
    async with batch_drivers(live, s.Journal) as (driver,):
        await driver.settle(
            driver.read(OrderNoted("one"), "o1", 1),
            driver.read(OrderNoted(note), "o2", 1),
            driver.read(OrderNoted("behind"), "o2", 2),
            driver.read(OrderNoted("three"), "o3", 1),
        )

    assert await live.rows("journal") == [("o1:1", "one"), ("o3:1", "three")]
    assert await live.head(s.Journal, "order/o2") == (0, "failed", 2)  # its budget is not spent
    rows = await inspection.rows(live, "parked", "attempts", "error_class", version=1)
    assert [(attempts, kind.rpartition(".")[2]) for attempts, kind in rows] == [(1, error)]


@pytest.mark.parametrize(
    ("note", "kind"), [("misreads", "FileNotFoundError"), ("bad", "ValueError"), ("no", "Refuse")]
)
async def test_what_a_sql_handler_raises_itself_waits_for_new_code(
    live: ConsumerHarness, note: str, kind: str
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    s.trouble.refused.add("no")
    await live.migrate(s.Journal)
    async with batch_drivers(live, s.Journal) as (driver,):
        await driver.settle(driver.read(OrderNoted(note), "o1", 1), driver.read(OrderNoted("two"), "o2", 1))

    assert await live.rows("journal") == [("o2:1", "two")]
    assert (await live.head(s.Journal, "order/o1"))[1] == "waiting"
    assert str(await inspection.value(live, "parked", "error_class")).endswith(kind)


async def test_an_outage_inside_a_sql_handler_puts_off_the_batch_and_costs_no_attempt(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Journal)
    async with batch_drivers(live, s.Journal) as (driver,):
        await driver.settle(driver.read(OrderNoted("first"), "o1", 1))
        async with live.pool.acquire() as reader, reader.transaction():
            await reader.execute("select * from projectionist.journal__g1 for update")
            with listening() as heard:
                both = [
                    driver.read(OrderNoted(note), name, 1) for name, note in (("o2", "locks"), ("o3", "x"))
                ]
                settling = asyncio.create_task(driver.settle(*both))
                await heard.wait("batch.outage", 2)
        await settling

    assert [note for _, note in await live.rows("journal")] == ["first", "locks", "x"]
    assert await inspection.count_parked(live) == 0


async def test_sql_of_ones_own_fails_within_its_budget_and_is_applied_once_after_the_fix(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Journal)
    await live.publish(OrderNoted("x" * 30), "o1", 1, id="a")
    async with live.running(s.Journal):
        await inspection.reaches("waiting", inspection.head_state, live)
    assert await inspection.parked_attempts(live) == 3

    await live.pool.execute("alter table projectionist.journal__g1 drop constraint journal__g1_note_check")
    async with live.verbs(s.Journal) as verbs:
        await verbs.retry("order/o1", ACT)
    await live.settle(s.Journal)

    assert await live.rows("journal") == [("a", "x" * 30)]
    assert await live.unaccounted(s.Journal) == []


@pytest.mark.parametrize("sequence", ["contiguous", "monotonic", "unordered"])
async def test_every_order_survives_the_stream_coming_twice(live: ConsumerHarness, sequence: Any) -> None:
    s = shop(live.stream, sequence=sequence)
    await live.migrate(s.Orders, s.Spend, s.Mailer, s.Journal)
    for number in range(5):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
        await live.publish(OrderNoted("note"), f"o{number}", 2)
        await live.publish(OrderPaid(), f"o{number}", 3)
    consumers = (s.Orders, s.Spend, s.Mailer, s.Journal)
    await live.settle(*consumers)
    tables = ("orders", "spend", "journal", "{s}.intents", "{s}.inbox")
    before = [await live.fetch(f"select * from {table} order by 1, 2") for table in tables]

    for (durable,) in await inspection.rows(live, "consumers", "durable"):
        await live.nats.jetstream().delete_consumer(live.stream.name, durable)
    await live.settle(*consumers)

    assert [await live.fetch(f"select * from {table} order by 1, 2") for table in tables] == before
