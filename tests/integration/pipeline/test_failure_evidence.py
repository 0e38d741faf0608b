"""One event that brings about what looks like the server's fault, and servers whose fault looks like that of events."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.evidence import ACT, comes, retrying
from tests.support.load import Load, flowing, tuned
from tests.support.notes import notes
from tests.support.process import projectionist
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import HANG_S, listening

from projectionist.core.retry_policy import RetryPolicy
from projectionist.runner.batch.times import BatchTimes
from projectionist.runner.failures.consumer_breaker import ConsumerBreaker

pytestmark = pytest.mark.asyncio
NOTES = "select array_agg(note order by note) from notes"


async def publish(harness: ConsumerHarness, bad: str, good: int, first: int = 0) -> list[str]:
    """One bad note among good ones; the aggregates of the good."""
    names = [f"g{number:02}" for number in range(first, first + good)]
    for number, name in enumerate(names):
        if number == good // 3:
            await harness.publish(OrderNoted(bad), "bad", 1)
        await harness.publish(OrderNoted("x"), name, 1)
    return names


async def test_an_event_whose_statement_takes_for_ever_is_failed_and_all_others_go_on(
    live: ConsumerHarness,
) -> None:
    cls = notes(live.stream)
    await live.migrate(cls)
    tuned(live, postgres={"statement_s": 0.4, "lock_s": 0.3})
    names = await publish(live, "slow", 24)
    async with live.running(cls):
        await comes(live, NOTES, names)
        await comes(live, "select head from {s}.positions where aggregate = 'order/bad'", "waiting")
        await live.publish(OrderNoted("x"), "later", 1)
        await comes(live, NOTES, [*names, "later"])
        await live.settled(cls)

    (failed,) = await live.fetch("select id, cause, error_class, error like '%timeout%' from {s}.parked")
    assert failed[1:] == ("failed", "alone", True)
    assert await live.unaccounted(cls) == []


async def test_an_event_that_is_slow_when_nothing_else_comes_keeps_nobody_waiting_for_long(
    live: ConsumerHarness,
) -> None:
    cls = notes(live.stream)
    await live.migrate(cls)
    tuned(live, postgres={"statement_s": 0.3, "lock_s": 0.2})
    await live.publish(OrderNoted("slow"), "bad", 1)
    with listening() as heard:
        async with live.running(cls, times=BatchTimes(patience_s=0.5)):
            await heard.wait("batch.outage")
            await live.publish(OrderNoted("x"), "good", 1)
            await comes(live, NOTES, ["good"])
            await live.settled(cls)

    assert heard.counts["batch.blamed"] >= 1


async def test_a_row_that_somebody_holds_for_ever_keeps_its_own_events_waiting_alone(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    tuned(live, postgres={"lock_s": 0.2})
    await live.publish(OrderPlaced("ann", 1), "o0", 1)
    await live.settle(s.Spend)
    stranger = await live.own_connection()
    try:
        await stranger.execute(
            "begin; update projectionist.spend__g1 set cents = cents where customer = 'ann'"
        )
        async with live.running(s.Spend):
            await live.publish(OrderPlaced("ann", 2), "held", 1)
            for number in range(12):
                await live.publish(OrderPlaced("bob", 1), f"b{number}", 1)
            await comes(live, "select orders from spend where customer = 'bob'", 12)
            await comes(live, "select cause from {s}.parked", "failed")
            await stranger.execute("rollback")
            async with live.verbs(s.Spend) as verbs:
                if (await live.head(s.Spend, "order/held"))[1] == "waiting":
                    await verbs.retry("order/held", ACT)
            await comes(live, "select cents from spend where customer = 'ann'", 3)
    finally:
        await stranger.close()

    assert await inspection.count_parked(live) == 0


@asynccontextmanager
async def raising(harness: ConsumerHarness, state: str, when: str = "true") -> AsyncIterator[None]:
    """The read model of orders raises this state, whatever it says, for the rows of which `when` holds."""
    await harness.pool.execute(
        f"""
        create function raises() returns trigger language plpgsql as $$ begin
            if {when} then raise exception 'could not go on' using errcode = '{state}'; end if; return new;
        end $$;
        create trigger raises before insert or update on projectionist.orders__g1
            for each row execute function raises();
        """
    )
    yield
    await harness.pool.execute("drop function raises cascade")


@pytest.mark.parametrize("state", ["58030", "XX000", "25P04", "55000", "26000", "42501", "53200"])
async def test_trouble_that_ends_while_it_is_waited_for_costs_no_event_an_attempt(
    live: ConsumerHarness, state: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with live.running(s.Orders, times=BatchTimes(patience_s=HANG_S)):
        with listening() as heard:
            async with raising(live, state):
                for number in range(8):
                    await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
                await heard.wait("batch.outage", 4)
            await comes(live, "select count(*) from orders", 8)
            await live.settled(s.Orders)

    assert await live.failed_tries() == 0
    assert await inspection.count_parked(live) == 0


async def test_trouble_that_outlasts_all_patience_ends_with_everything_applied(live: ConsumerHarness) -> None:
    """Some are put aside while nobody can tell; each comes again, and none waits for a person."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    tuned(live, policy={"retry": retrying(30)})
    async with live.running(s.Orders, times=BatchTimes(patience_s=0.1)):
        with listening() as heard:
            async with raising(live, "XX000"):
                for number in range(8):
                    await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
                await heard.wait("batch.blamed", 2)
            await comes(live, "select count(*) from orders", 8)
            await live.settled(s.Orders)

    assert await inspection.count_parked(live) == 0


@pytest.mark.parametrize("state", ["42501", "42703", "55000", "XX001", "58030", "42601"])
async def test_a_row_that_the_database_refuses_in_any_words_fails_its_event_alone(
    live: ConsumerHarness, state: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with raising(live, state, "new.order_id = 'secret'"):
        for number in range(10):
            await live.publish(OrderPlaced("ann", 1), "secret" if number == 4 else f"o{number}", 1)
        async with live.running(s.Orders):
            await comes(live, "select count(*) from orders", 9)
            await comes(live, "select head from {s}.positions where aggregate = 'order/secret'", "waiting")
            await live.settled(s.Orders)

    kind = "fault" if state == "42601" else "alone"
    assert await inspection.rows(live, "parked", "error_class", "error") == [(kind, "could not go on")]
    told = await inspection.rows(live, "incidents", "kind", "aggregate", "detail")
    assert told == [("fault", "order/secret", "could not go on")] * (kind == "fault")
    assert await live.unaccounted(s.Orders) == []


async def test_rights_that_are_missing_for_everybody_are_waited_for_and_fail_few(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    load = Load(live, shop(live.stream))
    async with live.running(s.Orders):
        with listening() as heard:
            async with raising(live, "42501"), flowing(load):
                await heard.wait("batch.outage", 6)
            await comes(live, "select count(*) from orders", load.orders)
            await live.settled(s.Orders)

    assert await live.failed_tries() <= 1


@pytest.mark.parametrize(("bad", "processes"), [("ends", 2), ("crashes", 1)])
async def test_an_event_that_ends_its_back_end_is_failed_and_all_others_are_applied(
    live: ConsumerHarness, bad: str, processes: int
) -> None:
    cls = notes(live.stream)
    await live.migrate(cls)
    names = await publish(live, bad, 9)
    with listening() as heard:
        async with live.running(cls, processes=processes):
            await comes(live, NOTES, names)
            await heard.wait("batch.blamed", 3)
            await comes(live, NOTES, names)
            await comes(live, "select head from {s}.positions where aggregate = 'order/bad'", "waiting")

    assert await inspection.rows(live, "parked", "error_class", "budget", "attempts") == [("session", 3, 3)]
    assert await live.unaccounted(cls) == []


async def test_a_process_that_an_error_ends_says_no_goodbye_and_one_that_is_stopped_does(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    stopped = "select array_agg(stopped is not null order by number) from {s}.runners"
    await live.settle(s.Orders)
    assert await live.value(stopped) == [True]

    async def broken(*_: object) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(ConsumerBreaker, "note", broken)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    with pytest.raises(KeyError):
        await live.settle(s.Orders)
    monkeypatch.undo()

    assert await live.value(stopped) == [True, False]
    await live.settle(s.Orders)
    assert await live.value(stopped) == [True, False, True]


@pytest.mark.parametrize("bad", ["slow", "ends"])
async def test_a_process_that_cannot_finish_an_event_ends_when_it_is_asked_to(
    live: ConsumerHarness, bad: str
) -> None:
    cls = notes(live.stream)
    await live.migrate(cls)
    await live.publish(OrderNoted(bad), "bad", 1)
    environment = {
        "PROJECTIONIST_POSTGRES__URL": live.database,
        "PROJECTIONIST_NATS__URL": live.servers.nats_url,
        "PROJECTIONIST_RUN__SHUTDOWN_S": "2",
        "HELD_STREAM": live.stream.name,
    }
    async with projectionist("run", "tests.support.notes:app", env=environment) as child:
        await child.heard("batch.judged")
        child.signal(signal.SIGTERM)
        ended = await child.ended()

    assert ended.code == 0


async def test_a_start_brings_nothing_forward_that_waits_for_long_on_purpose(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "bad", 1)
    async with raising(live, "23514"), live.running(s.Orders):
        await comes(live, "select error_class from {s}.parked", "database")
    await live.pool.execute(
        "update projectionist.positions set head = 'failed', due = clock_timestamp() + interval '1 hour'"
    )
    await live.count_anew()
    tuned(live, policy={"retry": RetryPolicy(initial_s=0.01, maximum_s=60.0, attempts=10)})
    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("stream_guard.recorded")
            assert await live.value(
                "select due > clock_timestamp() + interval '10 minutes' from {s}.positions"
            )
