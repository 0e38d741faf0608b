"""With `ack = "after-store"` the inbox is the queue: acked when safe, applied from there, in order, once."""

from __future__ import annotations

import random

import asyncpg
import pytest
from nats.js.errors import NotFoundError
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA, Stream
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually, listening

from projectionist.core.errors import SettingsError
from projectionist.core.operator import Act
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.core.settings.settings import Policy, Settings, Telemetry
from projectionist.projections import Event, definition
from projectionist.runner.batch.batch_session import tag
from projectionist.runner.batch.times import BatchTimes
from projectionist.runner.consumers import status
from projectionist.runner.process.run import refuse_unmonitored

STORE = Policy(ack="after-store", late_s=0)
ACT = Act("ann", "looked at it")


@pytest.mark.asyncio
async def test_an_event_is_stored_then_applied_with_its_effect(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")
    await live.publish(OrderPaid(500), "o1", 2, id="b")

    with listening() as heard:
        await live.settle(s.Orders, policy=STORE)

    assert heard.counts["drain.settled"] >= 1
    assert await live.rows("orders") == [("o1", "paid", 500, '["placed", "paid"]')]
    assert await live.states(s.Orders) == {"a": "applied", "b": "applied"}
    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)
    assert await inspection.count_intents(live) == 1
    assert await inspection.count_parked(live) == 0
    counted = dict(
        await live.fetch("select outcome, sum(n)::int from {s}.counters where type <> '' group by outcome")
    )
    assert counted == {"parked_stored": 2, "applied": 2, "intents": 1}
    assert await live.unaccounted(s.Orders) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("sequence", ["contiguous", "unordered"])
async def test_what_is_stored_is_applied_at_once_and_not_at_the_next_sweep(
    live: ConsumerHarness, sequence: str
) -> None:
    """Where nothing else happens, a row would be behind its event by up to a second."""
    s = shop(live.stream, sequence=sequence)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    async with live.running(s.Orders, policy=STORE, times=BatchTimes(sweep_s=600.0)):
        await live.value_of("select count(*) from orders", 1)
        await live.publish(OrderPlaced("ann", 1), "o2", 1)
        await live.value_of("select count(*) from orders", 2)
        for n in range(3, 6):
            await live.publish(OrderPlaced("ann", 1), f"o{n}", 1)
            await live.value_of("select count(*) from orders", n)


@pytest.mark.asyncio
async def test_what_is_stored_is_acked_and_shown_as_backlog_while_nobody_can_drain_it(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for version in range(1, 4):
        await live.publish(OrderNoted(f"n{version}"), "o1", version)
    blocker = await live.own_connection()
    try:
        await blocker.execute(f"begin; lock table {SCHEMA}.orders__g1 in access exclusive mode")
        async with live.running(s.Orders, policy=STORE):
            await eventually(lambda: acked(live))
            async with live.pool.acquire() as connection:
                [one] = await status.consumers(connection, SCHEMA)
            assert (one.backlog, one.parked, one.outcomes.get("applied")) == (3, 3, None)
            await blocker.execute("rollback")
            await live.settled(s.Orders)
    finally:
        await blocker.close()

    assert await live.rows("orders") == [("o1", "new", 0, '["n1", "n2", "n3"]')]


async def acked(live: ConsumerHarness) -> bool:
    """Whether the broker holds nothing of the consumer any more."""
    durable = await inspection.durable_name(live)
    try:
        info = await live.nats.jetstream().consumer_info(live.stream.name, durable)
    except NotFoundError:
        return False
    assert (info.num_pending, info.num_ack_pending) == (0, 0)
    return True


@pytest.mark.asyncio
async def test_gaps_failures_and_repeats_are_what_they_are_without_it(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("one"), "gap", 1, id="g1")
    await live.publish(OrderNoted("three"), "gap", 3, id="g3")
    await live.publish(OrderNoted("bad"), "ill", 1, id="i1")
    await live.publish(OrderNoted("after"), "ill", 2, id="i2")
    await live.publish(OrderNoted("fine"), "well", 1, id="w1")
    await live.publish(OrderNoted("fine"), "well", 1, id="w1")
    await live.publish(OrderNoted("other"), "well", 1, id="w2")

    async with live.running(s.Orders, policy=STORE):
        await live.settled(s.Orders)
        assert await live.head(s.Orders, "order/gap") == (1, "gap", 1)
        assert await live.head(s.Orders, "order/ill") == (0, "waiting", 2)
        assert await live.head(s.Orders, "order/well") == (1, "clear", 0)
        assert await live.states(s.Orders) == {
            "g1": "applied",
            "g3": "parked",
            "i1": "parked",
            "i2": "parked",
            "w1": "applied",
            "w2": "quarantined",
        }
        assert await inspection.count_duplicates(live) == 1

        s.trouble.poison.clear()
        async with live.verbs(s.Orders) as verbs:
            await verbs.retry("order/ill", ACT)
        await live.publish(OrderNoted("two"), "gap", 2, id="g2")
        await live.settled(s.Orders)

    rows = {row[0]: row[3] for row in await live.rows("orders")}
    assert rows == {"gap": '["one", "two", "three"]', "ill": '["bad", "after"]', "well": '["fine"]'}
    assert await live.unaccounted(s.Orders) == []


@pytest.mark.parametrize("sequence", ["unordered", "monotonic"])
@pytest.mark.asyncio
async def test_the_other_sequences_are_stored_first_too(live: ConsumerHarness, sequence: str) -> None:
    s = shop(live.stream, sequence=sequence)
    await live.migrate(s.Orders)
    for version in (1, 2, 4, 7):
        await live.publish(OrderNoted(f"n{version}"), "o1", version)

    await live.settle(s.Orders, policy=STORE)

    assert await live.rows("orders") == [("o1", "new", 0, '["n1", "n2", "n4", "n7"]')]
    assert set((await live.states(s.Orders)).values()) == {"applied"}
    assert await inspection.count_parked(live) == 0


@pytest.mark.asyncio
async def test_ten_thousand_events_by_two_workers_equal_the_fold(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    events, expected = history(random.Random(7), aggregates=200, each=50)
    await live.publish_all(events)

    await live.settle(s.Orders, processes=2, policy=STORE, limits=Limits(max_rows=300))

    assert {row[0]: row[3] for row in await live.rows("orders")} == expected
    assert await live.value("select count(*) from {s}.inbox where state <> 'applied'") == 0
    assert await live.value("select count(*) from {s}.positions where owner is not null") == 0
    assert await live.unaccounted(s.Orders) == []


def history(
    chance: random.Random, *, aggregates: int, each: int
) -> tuple[list[tuple[Event, str, int | None, str]], dict[str, str]]:
    """Shuffled events, some of them twice; and what they come to."""
    events: list[tuple[Event, str, int | None, str]] = [
        (OrderNoted(f"n{version}"), f"o{number}", version, f"{number}-{version}")
        for number in range(aggregates)
        for version in range(1, each + 1)
    ]
    events += chance.sample(events, len(events) // 50)
    chance.shuffle(events)
    text = "[" + ", ".join(f'"n{version}"' for version in range(1, each + 1)) + "]"
    return events, {f"o{number}": text for number in range(aggregates)}


@pytest.mark.asyncio
async def test_what_a_dead_runner_had_claimed_is_taken_over_when_its_lease_is_over(
    live: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("one"), "o1", 1)
    await live.settle(s.Orders, policy=STORE)
    gone = await live.value(
        "insert into {s}.runners (consumer, instance, host, pid, leased_until)"
        " select number, gen_random_uuid(), 'gone', 1, clock_timestamp() + interval '1 second' from {s}.consumers"
        " returning number"
    )
    await live.value("update {s}.positions set owner = $1 returning 1", gone)
    await live.publish(OrderNoted("two"), "o1", 2)

    async with live.running(s.Orders, policy=STORE):
        await eventually(lambda: acked(live))
        assert await live.head(s.Orders, "order/o1") == (1, "draining", 1)
        await live.settled(s.Orders)

    assert await live.rows("orders") == [("o1", "new", 0, '["one", "two"]')]
    lines = [record.getMessage() for record in caplog.records if "taken over" in record.getMessage()]
    assert lines == ["Orders: 1 aggregates taken over, claimed by a process whose lease is over"]


@pytest.mark.asyncio
async def test_sessions_of_a_runner_with_the_same_number_in_another_schema_are_left_alone(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    number = 4711
    names = [f"projectionist {number}@{tag(schema)} Orders" for schema in (SCHEMA, "another")]
    frozen, other = [
        await asyncpg.connect(live.database, server_settings={"application_name": name}) for name in names
    ]
    for session in (frozen, other):
        await session.execute("begin")
    await live.fetch(
        "insert into {s}.runners (number, consumer, instance, host, pid, leased_until) overriding system value"
        " select $1, number, gen_random_uuid(), 'gone', 1, clock_timestamp() from {s}.consumers",
        number,
    )

    async def is_ended() -> bool:
        return frozen.is_closed()

    async with live.running(s.Orders, policy=STORE):
        await eventually(is_ended)

    assert await other.fetchval("select 1") == 1
    await other.close()


@pytest.mark.asyncio
async def test_a_runner_whose_claim_was_taken_over_applies_nothing_of_it(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("one"), "o1", 1)
    with listening() as heard:
        blocker = await live.own_connection()
        await blocker.execute(f"begin; lock table {SCHEMA}.orders__g1 in access exclusive mode")
        async with live.running(s.Orders, policy=STORE):
            await heard.wait("drain.claimed")
            # It waits for the table inside its batch. Its session ends, and before it comes back another has it.
            await blocker.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
                " and application_name like 'projectionist % Orders' and wait_event_type = 'Lock'"
            )
            await blocker.execute("rollback")
            await blocker.close()
            await live.settled(s.Orders)

    assert await live.rows("orders") == [("o1", "new", 0, '["one"]')]


def test_it_is_refused_where_nobody_would_see_the_backlog() -> None:
    orders = definition(shop(Stream("SHOP")).Orders)
    unmonitored = Settings(consumer_defaults=STORE)

    with pytest.raises(SettingsError, match="Orders: ack = 'after-store' hides a backlog"):
        refuse_unmonitored([orders], unmonitored)
    refuse_unmonitored([orders], Settings())
    for telemetry in (
        Telemetry(exporter="otlp"),
        Telemetry(endpoint=Url("http://collector:4317")),
        Telemetry(allow_unmonitored=True),
    ):
        refuse_unmonitored([orders], Settings(consumer_defaults=STORE, telemetry=telemetry))
