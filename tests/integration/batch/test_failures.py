"""What an event's failure stops, for how long, and what it leaves behind."""

from __future__ import annotations

import msgspec
import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness, headers_of
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, mended, shop
from tests.support.waiting import listening

from projectionist.core.operator import Act
from projectionist.core.retry_policy import RetryPolicy
from projectionist.core.settings.settings import Policy
from projectionist.runner.batch.times import BatchTimes

pytestmark = pytest.mark.asyncio
ACT = Act("ops", "the test wants it")


async def test_a_poison_in_mid_batch_stops_its_aggregate_alone(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for aggregate in ("o1", "o2", "o3"):
        await live.publish(OrderPlaced("ann", 1), aggregate, 1)
        await live.publish(OrderNoted("bad" if aggregate == "o2" else "good"), aggregate, 2)
        await live.publish(OrderPaid(), aggregate, 3)

    await live.settle(s.Orders)

    assert [(row[0], row[3]) for row in await live.rows("orders")] == [
        ("o1", '["placed", "good", "paid"]'),
        ("o2", '["placed"]'),
        ("o3", '["placed", "good", "paid"]'),
    ]
    assert await live.head(s.Orders, "order/o2") == (1, "waiting", 2)
    assert await inspection.rows(
        live, "parked", "version", "cause", "attempts", "error_class", "error", order="version"
    ) == [
        (2, "failed", 1, "ValueError", "cannot digest bad"),
        (3, "blocked", 0, None, None),
    ]
    assert await inspection.count_intents(live) == 2
    assert await live.unaccounted(s.Orders) == []


async def test_a_poison_leaves_no_dirt_on_rows_and_intents(live: ConsumerHarness) -> None:
    """The handler had changed its row before it raised, and others had been folded on top of a shared one."""
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        history = [OrderPlaced("ann", 1), OrderNoted("good"), OrderNoted("bad"), OrderPaid()]
        await driver.settle(*(driver.read(event, "o1", n) for n, event in enumerate(history, 1)))

    assert await live.rows("orders") == [("o1", "placed", 1, '["placed", "good"]')]
    assert await inspection.count_intents(live) == 0


async def test_followers_of_a_poison_are_applied_in_order_after_the_fix(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    for version in (4, 2, 5, 3):
        await live.publish(OrderNoted("bad" if version == 2 else f"n{version}"), "o1", version)
    await live.publish(OrderPaid(), "o1", 6)
    await live.settle(s.Orders)
    assert await live.head(s.Orders, "order/o1") == (1, "waiting", 5)

    s.trouble.poison.clear()
    async with live.verbs(s.Orders) as verbs:
        await verbs.retry("order/o1", ACT)
    await live.settle(s.Orders)

    assert await live.rows("orders") == [("o1", "paid", 1, '["placed", "bad", "n3", "n4", "n5", "paid"]')]
    assert await live.head(s.Orders, "order/o1") == (6, "clear", 0)
    assert await inspection.count_parked(live) == 0


async def test_a_handler_that_asks_for_a_retry_gets_it_on_time_and_its_followers_wait(
    live: ConsumerHarness,
) -> None:
    times = BatchTimes(sweep_s=3600)  # nobody looks at what is due but who made it due
    s = shop(live.stream)
    s.trouble.later.update({"one", "two"})
    await live.migrate(s.Orders)
    policy = msgspec.structs.replace(
        live.policy, retry=RetryPolicy(initial_s=0.01, maximum_s=0.01, attempts=10_000)
    )
    async with live.running(s.Orders, policy=policy, times=times):
        for number, note in enumerate(("one", "two"), 1):
            await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
            await live.publish(OrderNoted(note), f"o{number}", 2)
            await live.publish(OrderPaid(), f"o{number}", 3)
        await live.value_of("select bool_and(attempts >= 3) from {s}.parked where version = 2", True)
        assert await inspection.count_intents(live) == 0
        s.trouble.later.clear()
        await live.value_of("select bool_and(head = 'clear' and version = 3) from {s}.positions", True)

    assert [row[3] for row in await live.rows("orders")] == [
        '["placed", "one", "paid"]',
        '["placed", "two", "paid"]',
    ]


async def test_a_spent_budget_waits_for_a_person_and_costs_no_more_tries(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.later.add("never")
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("never"), "o1", 1)
    async with live.running(s.Orders):
        await inspection.reaches("waiting", inspection.head_state, live)

    assert await inspection.rows(live, "parked", "attempts", "budget", "error_class") == [(3, 3, "Retry")]
    assert await inspection.value(live, "positions", "due") is None
    assert await inspection.count_outcomes(live, "failed") == 3


async def test_two_processes_that_find_the_same_head_due_try_it_once(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.later.add("never")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, drivers=2) as (one, other):
        await one.settle(one.read(OrderNoted("never"), "o1", 1))
        await live.pool.execute("update projectionist.positions set due = clock_timestamp()")
        due, _ = await other.due(10)
        assert due == ["order/o1"]

        await live.pool.execute("update projectionist.positions set due = due + interval '1 hour'")
        await other.settle(due=due)

    assert await inspection.parked_attempts(live) == 1
    assert (await live.head(s.Orders, "order/o1"))[1] == "failed"


async def test_a_head_that_waits_for_a_person_is_not_woken_by_a_list_that_has_become_old(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderNoted("bad"), "o1", 1))
        await driver.settle(due=["order/o1"])

    assert await inspection.parked_attempts(live) == 1
    assert await live.head(s.Orders, "order/o1") == (0, "waiting", 1)


async def test_a_refused_event_waits_for_a_person_at_once(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.refused.add("no")
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("no"), "o1", 1)

    await live.settle(s.Orders)

    assert await live.head(s.Orders, "order/o1") == (0, "waiting", 1)
    assert await inspection.rows(live, "parked", "attempts", "error") == [(1, "will not have no")]


async def test_a_body_nobody_can_read_is_the_failed_head_of_its_aggregate(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    headers = headers_of(OrderNoted("x"), "o1", 2, id="b")
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish_raw(b'{"text": 5}', headers, "o1")
    await live.publish(OrderPaid(), "o1", 3)
    await live.publish(OrderPlaced("bob", 2), "o2", 1)

    await live.settle(s.Orders)

    assert await live.head(s.Orders, "order/o1") == (1, "waiting", 2)
    assert await live.head(s.Orders, "order/o2") == (1, "clear", 0)
    assert await inspection.rows(live, "parked", "cause", "error_class", order="version") == [
        ("failed", "unreadable"),
        ("blocked", None),
    ]
    assert await inspection.count_quarantined(live) == 0
    assert await live.unaccounted(s.Orders) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'{"text": "\\u0000"}', b'{"text": "\\ud800"}', b"[" * 200 + b"]" * 200],
    ids=["empty", "cut off", "no UTF-8", "NUL", "half a pair", "deep"],
)
async def test_no_body_however_broken_stops_another_aggregate(live: ConsumerHarness, body: bytes) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        bad = driver.read(OrderNoted("x"), "o1", 1)
        bad.data = body
        bad.event, bad.problem, _ = driver.consumer.reader.body(bad.type, bad.schema, body)
        assert bad.problem is not None
        await driver.settle(bad, driver.read(OrderPlaced("bob", 2), "o2", 1))

    assert await live.head(s.Orders, "order/o1") == (0, "waiting", 1)
    assert [row[0] for row in await live.rows("orders")] == ["o2"]


@pytest.mark.parametrize(
    ("reason", "headers"),
    [
        ("type", {"ce-type": ""}),
        ("version", {"ce-aggregateversion": "-1"}),
        ("version", {"ce-aggregateversion": "99999999999999999999"}),
        ("aggregate", {"ce-aggregateid": "another"}),
        ("schema", {"ce-schemaversion": "x"}),
        ("time", {"ce-time": "yesterday"}),
        ("identity", {"ce-id": "x" * 300}),
    ],
)
async def test_an_unreadable_envelope_is_quarantined_and_its_neighbours_go_on(
    live: ConsumerHarness, reason: str, headers: dict[str, str]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    bad = await live.publish(OrderPlaced("bob", 2), "o2", 1, headers=headers)
    await live.publish(OrderPaid(), "o1", 2)

    await live.settle(s.Orders)

    assert await inspection.rows(live, "quarantine", "seq", "reason", "state") == [
        (bad, reason, "quarantined")
    ]
    assert await inspection.value(live, "quarantine", "data") == b'{"customer":"bob","cents":2}'
    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)
    assert await live.unaccounted(s.Orders) == []


async def test_a_value_that_postgresql_refuses_is_found_and_fails_its_event_alone(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute("alter table projectionist.orders__g1 add constraint sane check (cents < 1000)")
    for number in range(8):
        await live.publish(OrderPlaced("ann", 5_000 if number == 5 else number), f"o{number}", 1)
        await live.publish(OrderPaid(), f"o{number}", 2)

    with listening() as heard:
        async with live.running(s.Orders):
            await inspection.reaches("waiting", inspection.head_state, live, "order/o5")
            await live.settled(s.Orders)

    assert [row[0] for row in await live.rows("orders")] == ["o0", "o1", "o2", "o3", "o4", "o6", "o7"]
    assert await live.head(s.Orders, "order/o5") == (0, "waiting", 2)
    rows = await live.fetch(
        "select error_class, error like '%sane%', attempts from {s}.parked where version = 1"
    )
    assert rows == [("database", True, live.policy.retry.attempts)]
    assert heard.counts["batch.isolated"] >= 2
    assert heard.counts["session.ill"] == 0
    assert await live.unaccounted(s.Orders) == []


async def test_a_refused_value_in_a_parked_follower_is_found_too(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute(
        "alter table projectionist.orders__g1 add constraint sane check (not history @> '[\"bad\"]')"
    )
    await live.publish(OrderNoted("good"), "o1", 2)
    await live.publish(OrderNoted("bad"), "o1", 3)
    await live.publish(OrderPaid(), "o1", 4)
    await live.settle(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)

    async with live.running(s.Orders):
        await inspection.reaches("waiting", inspection.head_state, live)

    assert await live.rows("orders") == [("o1", "placed", 1, '["placed", "good"]')]
    assert await live.head(s.Orders, "order/o1") == (2, "waiting", 2)
    assert await inspection.value(live, "parked", "error_class", version=3) == "database"


async def test_a_key_longer_than_an_index_takes_fails_its_event(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    async with batch_drivers(live, s.Spend) as (driver,):
        long = "".join(chr(0x4E00 + (n * 7919) % 20_000) for n in range(5_000))  # 15 kB that do not compress
        await driver.settle(
            driver.read(OrderPlaced(long, 1), "o1", 1), driver.read(OrderPlaced("bob", 2), "o2", 1)
        )

    assert await live.rows("spend") == [("bob", 1, 2)]
    assert (await live.head(s.Spend, "order/o1"))[:2] == (0, "waiting")


async def test_a_value_that_is_refused_in_our_own_tables_is_quarantined_as_bytes(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.pool.execute("alter table projectionist.inbox add constraint odd check (id <> 'odd')")
    for number in range(5):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1, id="odd" if number == 2 else None)
    await live.settle(s.Orders)

    assert [row[0] for row in await live.rows("orders")] == ["o0", "o1", "o3", "o4"]
    put = await live.fetch(
        "select seq, reason, detail like '%odd%', data, headers like '%odd%' from {s}.quarantine"
    )
    assert put == [(3, "refused", True, b'{"customer":"ann","cents":1}', True)]
    assert await live.unaccounted(s.Orders) == []


async def test_an_outage_costs_no_attempt_and_the_backlog_drains_after_it(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with live.running(s.Orders):
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.settled(s.Orders)
        with listening() as heard:
            await live.pool.execute("alter table projectionist.orders__g1 rename to elsewhere")
            await live.publish(OrderPaid(), "o1", 2)
            await heard.wait("batch.outage", 2)
            await live.pool.execute("alter table projectionist.elsewhere rename to orders__g1")
            await heard.wait("session.well")
        await live.settled(s.Orders)

    assert heard.counts["session.ill"] == 1  # told once
    assert await live.value("select status from orders") == "paid"
    assert await inspection.count_parked(live) == 0


async def test_new_code_tries_what_old_code_failed_on_a_sample_first_and_then_the_rest(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(12):
        await live.publish(OrderNoted("bad"), f"o{number:02}", 1)
        await live.publish(OrderPaid(), f"o{number:02}", 2)
    await live.settle(s.Orders)
    assert await inspection.count(live, "positions", head="waiting") == 12

    new = mended(live.stream)
    with listening() as heard:
        async with live.running(new):
            await heard.wait("rearm.released")
            await live.value_of("select bool_and(head = 'clear') from {s}.positions", True)

    assert heard.counts["rearm.sampled"] == 1
    assert [row[3] for row in await live.rows("orders")] == ['["bad", "paid"]'] * 12
    assert await inspection.count_intents(live) == 12


async def test_new_code_that_fails_too_touches_no_more_than_its_sample(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(12):
        await live.publish(OrderNoted("bad"), f"o{number:02}", 1)
    await live.settle(s.Orders)

    with listening() as heard:
        async with live.running(mended(live.stream, digests=frozenset())):
            await heard.wait("rearm.failed")
            await heard.wait("heart.beat", heard.counts["heart.beat"] + 3)

    assert heard.counts["rearm.failed"] == 1  # told once
    assert await live.fetch("select attempts, count(*) from {s}.parked group by 1 order by 1") == [
        (1, 7),
        (2, 5),
    ]
    assert await inspection.count(live, "positions", head="waiting") == 12


async def test_new_code_reads_the_body_again_that_old_code_could_not(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders, policy=Policy(max_depth=1))
    await live.publish_raw(
        b'{"text": "x", "more": [[[1]]]}', headers_of(OrderNoted("x"), "o1", 2, id="b"), "o1"
    )
    await live.settle(s.Orders, policy=Policy(max_depth=2))
    assert await live.head(s.Orders, "order/o1") == (1, "waiting", 1)

    async with live.verbs(s.Orders) as verbs:
        await verbs.retry("order/o1", ACT)
    await live.settle(s.Orders)

    assert (await live.rows("orders"))[0][3] == '["placed", "x"]'
    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)
