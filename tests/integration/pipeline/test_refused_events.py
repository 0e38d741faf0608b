"""Events that PostgreSQL refuses to hold at all: kept as bytes in quarantine, known when they come again."""

from __future__ import annotations

import asyncio

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.evidence import ACT, comes, retrying
from tests.support.load import tuned
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.core.retry_policy import RetryPolicy
from projectionist.runner.decoding.decoder import Decoder

pytestmark = pytest.mark.asyncio


async def test_an_event_only_the_claim_refuses_is_quarantined_as_bytes_and_others_go_on(
    live: ConsumerHarness,
) -> None:
    """Whatever reading may ever let pass: a text with the sign that divides texts, and one that no text may hold."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        events = [driver.read(OrderPlaced("ann", n), f"o{n}", 1, seq=n + 1) for n in range(9)]
        events[3].traceparent, events[6].correlation = "01-\x1f-x", "a\0b"
        await driver.settle(*events)

    assert [row[0] for row in await live.rows("orders")] == [f"o{n}" for n in range(9) if n not in (3, 6)]
    put = await live.fetch(
        "select seq, reason, headers like 'NATS/1.0%', data from {s}.quarantine order by seq"
    )
    assert put == [(n + 1, "refused", True, events[n].data) for n in (3, 6)]
    assert await inspection.count_parked(live) == 0
    live.tampered = True


async def test_what_cannot_even_be_quarantined_is_not_acked_and_its_neighbours_go_on(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute("alter table projectionist.inbox add constraint odd check (id <> 'odd')")
    await live.pool.execute("alter table projectionist.quarantine add constraint odd check (seq <> 3)")
    tuned(live, policy={"ack_wait_s": 1.0})
    with listening() as heard:
        async with live.running(s.Orders):
            async with live.acks(s.Orders) as acked:
                for number in range(5):
                    await live.publish(
                        OrderPlaced("ann", 1), f"o{number}", 1, id="odd" if number == 2 else None
                    )
                await heard.wait("batch.left", 2)
                await live.publish(OrderPlaced("ann", 1), "later", 1)
                await comes(live, "select count(*) from orders", 5)
                assert 3 not in {seq for seq, _ in acked}
            await live.pool.execute("alter table projectionist.quarantine drop constraint odd")
            await live.settled(s.Orders)

    assert await inspection.rows(live, "quarantine", "seq", "reason") == [(3, "refused")]


async def test_an_unreadable_quarantine_entry_keeps_no_other_due_entry_waiting(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    s.trouble.later.add("again")
    await live.migrate(s.Orders)
    tuned(live, policy={"retry": retrying(1000)})
    await live.publish(OrderPlaced("ann", 1), "bad", 1, headers={"ce-time": "yesterday"})
    await live.publish(OrderNoted("again"), "o1", 1)

    def broken(*_: object) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(Decoder, "reread", broken)
    with listening() as heard:
        async with live.running(s.Orders):
            await comes(live, "select count(*) from {s}.quarantine", 1)
            await live.pool.execute("update projectionist.quarantine set due = clock_timestamp()")
            await heard.wait("setbacks.noted", 2)
            s.trouble.later.clear()
            await inspection.reaches("clear", inspection.head_state, live, "order/o1")
            monkeypatch.undo()
            await comes(live, "select due is null from {s}.quarantine", True)
            await live.settled(s.Orders)


async def test_what_was_refused_stays_in_quarantine_until_it_can_be_held(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute("alter table projectionist.inbox add constraint odd check (id <> 'odd')")
    await live.publish(OrderPlaced("ann", 1), "o1", 1, id="odd")
    ask = "update projectionist.quarantine set due = clock_timestamp()"
    async with live.running(s.Orders):
        await comes(live, "select reason from {s}.quarantine", "refused")
        await live.pool.execute(ask)
        await comes(
            live, "select due is null and attempts = 1 and state = 'quarantined' from {s}.quarantine", True
        )
        await live.pool.execute("alter table projectionist.inbox drop constraint odd")
        await live.pool.execute(ask)
        await comes(live, "select state from {s}.quarantine", "released")
        await live.settled(s.Orders)

    assert await live.value("select order_id from orders") == "o1"


async def test_an_event_not_parked_because_of_a_locked_table_comes_back_by_itself(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    tuned(
        live,
        postgres={"lock_s": 0.1},
        policy={"retry": RetryPolicy(initial_s=0.01, maximum_s=1, attempts=10)},
    )
    await live.publish(OrderPlaced("ann", 1), "o0", 1)
    await live.settle(s.Orders)
    stranger = await live.own_connection()
    try:
        await stranger.execute("begin; lock table projectionist.parked in exclusive mode")
        async with live.running(s.Orders):
            for name in ("a", "b"):
                await live.publish(OrderPaid(), name, 2)
            good = 0
            while await inspection.count(live, "quarantine", reason="refused") < 2:
                await live.publish(OrderPlaced("bob", 1), f"g{good}", 1)
                good += 1
                await asyncio.sleep(0.05)
            await stranger.execute("rollback")
            for name in ("a", "b"):
                await live.publish(OrderPlaced("eve", 1), name, 1)
            await comes(live, "select count(*) from orders where status = 'paid'", 2)
            await live.settled(s.Orders)
    finally:
        await stranger.close()

    assert await live.fetch("select distinct state from {s}.quarantine") == [("released",)]


@pytest.mark.parametrize("state", ["XX002", "57014", "22021", "42501"])
async def test_an_event_that_cannot_even_be_claimed_is_quarantined_when_others_are_applied(
    live: ConsumerHarness, state: str
) -> None:
    """A page of our own index that nobody can read any more, in the way of one identity."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute(
        f"""
        create function raises() returns trigger language plpgsql as $$ begin
            if new.id = 'odd' then raise exception 'could not go on' using errcode = '{state}'; end if; return new;
        end $$;
        create trigger raises before insert on projectionist.inbox for each row execute function raises();
        """
    )
    for number in range(6):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1, id="odd" if number == 2 else None)
    await live.settle(s.Orders)

    assert await live.value("select count(*) from orders") == 5
    assert await inspection.rows(live, "quarantine", "seq", "reason") == [(3, "refused")]


async def test_an_event_refused_again_goes_back_to_quarantine_where_nothing_else_applies(
    live: ConsumerHarness,
) -> None:
    """A process that is asked to stop has to wait for the batch that it has begun."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute(
        """
        create function raises() returns trigger language plpgsql as $$ begin
            if new.id = 'odd' then raise exception 'not now' using errcode = '57014'; end if; return new;
        end $$;
        create trigger raises before insert on projectionist.inbox for each row execute function raises();
        """
    )
    for number in range(2):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1, id=None if number else "odd")
    async with live.running(s.Orders):
        await comes(live, "select attempts > 0 from {s}.quarantine", True)

    assert [row[0] for row in await live.rows("orders")] == ["o1"]


async def test_what_was_refused_is_known_when_it_is_delivered_again_and_stays_discarded(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute(
        """
        create function raises() returns trigger language plpgsql as $$ begin
            if new.id = 'odd' then raise exception 'not this' using errcode = '42501'; end if; return new;
        end $$;
        create trigger raises before insert on projectionist.inbox for each row execute function raises();
        """
    )
    async with batch_drivers(live, s.Orders) as (driver,):
        driver.context.sources = frozenset({"shop"})
        await driver.settle(
            *[
                driver.read(OrderPlaced("ann", n), f"o{n}", 1, seq=n + 1, id="odd" if n == 2 else None)
                for n in range(6)
            ]
        )
        again = driver.read(OrderPlaced("ann", 2), "o2", 1, seq=3, id="odd", delivered=2)
        with listening() as heard:
            alone = await driver.settle(again)
            among = await driver.settle(again, driver.read(OrderPlaced("eve", 1), "o9", 1, seq=9))
        async with live.quarantine(s.Orders) as verbs:
            await verbs.discard((1, 3), ACT)
        await live.pool.execute("drop trigger raises on projectionist.inbox")
        await driver.settle(again)

    assert heard.counts["batch.outage"] == 0
    known = ("order.placed", "redelivered")
    assert [one.writes.counts[known] for one in (*alone, *among)] == [1, 1]
    assert [one.writes.by_source[*known, "shop"] for one in (*alone, *among)] == [1, 1]
    assert [row[0] for row in await live.rows("orders")] == ["o0", "o1", "o3", "o4", "o5", "o9"]
    assert await inspection.rows(live, "quarantine", "seq", "reason", "state") == [
        (3, "refused", "discarded")
    ]
    live.tampered = True


@pytest.mark.parametrize("missing", [False, True])
async def test_what_was_refused_is_known_to_a_durable_that_begins_anew(
    live: ConsumerHarness, missing: bool
) -> None:
    """Delivered for the first time once more, or fetched because it is missing: a person's decision stands."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute("alter table projectionist.inbox add constraint odd check (id <> 'odd')")
    await live.publish(OrderPlaced("ann", 1), "o1", 1, id="odd")
    await live.publish(OrderPlaced("ann", 1), "o2", 1)
    if missing:
        await live.publish(OrderPaid(1), "o1", 2)
    await live.settle(s.Orders)
    async with live.quarantine(s.Orders) as verbs:
        await verbs.discard((1, 1), ACT)
    await live.pool.execute("alter table projectionist.inbox drop constraint odd")
    durable = await inspection.durable_name(live)
    await live.nats.jetstream().delete_consumer(live.stream.name, durable)
    await live.pool.execute("delete from projectionist.floors")

    async with live.running(s.Orders):
        await live.settled(s.Orders)
        if missing:
            await comes(live, "select head from {s}.positions where aggregate = 'order/o1'", "waiting")
            told = await inspection.value(live, "incidents", "detail", closed=None)
            assert "version 1 was at sequence 1, and discarded, by ann" in told

    assert [row[0] for row in await live.rows("orders")] == ["o2"]
    assert await inspection.rows(live, "quarantine", "seq", "reason", "state") == [
        (1, "refused", "discarded")
    ]


async def test_an_event_that_cannot_be_parked_for_its_data_waits_for_a_person_alone(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute("alter table projectionist.parked add constraint odd check (id <> 'odd')")
    await live.publish(OrderPaid(1), "o1", 2, id="odd")
    await live.publish(OrderPaid(1), "o2", 2)
    async with live.running(s.Orders):
        await comes(live, "select reason from {s}.quarantine", "refused")
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.publish(OrderPlaced("ann", 1), "o2", 1)
        await comes(live, "select count(*) from orders where status = 'paid'", 1)
        await live.settled(s.Orders)
        assert await inspection.rows(live, "quarantine", "state", "due", "attempts") == [
            ("quarantined", None, 0)
        ]
        await live.pool.execute("alter table projectionist.parked drop constraint odd")
        async with live.quarantine(s.Orders) as verbs:
            await verbs.retry((1, 1), ACT)
        await comes(live, "select count(*) from orders where status = 'paid'", 2)
        await live.settled(s.Orders)


async def test_what_was_refused_and_is_missing_is_named_and_comes_from_quarantine(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute("alter table projectionist.inbox add constraint odd check (id <> 'odd')")
    await live.publish(OrderPlaced("ann", 1), "o1", 1, id="odd")
    await live.publish(OrderPaid(1), "o1", 2)
    async with live.running(s.Orders):
        await inspection.reaches("waiting", inspection.head_state, live, "order/o1")
        told = await inspection.value(live, "incidents", "detail", closed=None)
        assert "version 1 is in quarantine, at sequence 1: refused" in told
        assert await inspection.value(live, "quarantine", "attempts") == 0
        await live.pool.execute("alter table projectionist.inbox drop constraint odd")
        async with live.quarantine(s.Orders) as verbs:
            await verbs.retry((1, 1), ACT)
        await comes(live, "select version::int from {s}.positions where aggregate = 'order/o1'", 2)
        await live.settled(s.Orders)

    assert [row[:2] for row in await live.rows("orders")] == [("o1", "paid")]
    assert await inspection.rows(live, "quarantine", "state") == [("released",)]
