"""What many keys fail on at once is not tried on all the others too; one poison among them opens nothing."""

from __future__ import annotations

import logging

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.core.operator import Act
from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.core.settings.settings import BreakerLimits, Policy
from projectionist.ops.inspect.project_status import next_steps
from projectionist.runner.consumers import status
from projectionist.runner.consumers.status import ConsumerStatus
from projectionist.runner.failures import consumer_breaker
from projectionist.runner.failures.failure_window import PROBED

pytestmark = pytest.mark.asyncio

ACT = Act("ann", "the service is back")
FULL = Limits(max_rows=50, max_ms=1000 * HANG_S)
"""A batch ends when it is full, or the broker has no more for it: however slowly that comes."""


def policy(*, share: float = 0.05, open_s: float = 600) -> Policy:
    """A policy whose breaker behaves so; it is not open for less than a test takes, unless that is what is wanted."""
    return Policy(late_s=0, breaker=BreakerLimits(failure_ratio=share, open_s=open_s))


async def shown(live: ConsumerHarness) -> ConsumerStatus:
    """The one consumer's status."""
    async with live.pool.acquire() as connection:
        [one] = await status.consumers(connection, SCHEMA)
    return one


async def test_it_opens_at_a_hundred_keys_and_what_is_left_is_not_tried(
    live: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    events = [(OrderNoted("bad" if n % 2 else "ok"), f"o{n}", 1, f"e{n}") for n in range(500)]
    await live.publish_all(events)

    with listening() as heard:
        async with live.running(s.Orders, policy=policy(share=1), limits=FULL):
            await heard.wait("breaker.open")
            await heard.wait("worker.waiting", 2)
            one = await shown(live)

    assert one.heads["waiting"] in {100, 125}, "the batch after the one that opened it may have been open too"
    assert one.breaker is not None
    assert one.breaker.state == "open"
    assert one.breaker.reason in {f"{n} keys failed within 60 s" for n in (100, 125)}
    assert 300 < one.breaker.until_s <= 600
    assert any("the breaker is open" in step.text for step in next_steps(one))
    warned = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert len([line for line in warned if "nothing is fetched for 600 s" in line]) == 1
    assert len([line for line in warned if "breaker" in line]) == 1


async def test_one_poison_and_a_few_more_open_nothing(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(19):
        await live.publish(OrderNoted("bad"), f"o{number}", 1)
    for number in range(50):
        await live.publish(OrderNoted("ok"), f"p{number}", 1)

    await live.settle(s.Orders, policy=policy())

    assert (await shown(live)).breaker is None


async def test_gaps_are_no_failures(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for number in range(150):
        await live.publish(OrderNoted("ok"), f"o{number}", 2)

    async with live.running(s.Orders, policy=policy()):
        await live.settled(s.Orders)

    one = await shown(live)
    assert one.parked == 150
    assert one.breaker is None


async def test_a_share_of_what_was_tried_opens_it_too(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(300):
        await live.publish(OrderNoted("bad" if number % 10 == 0 else "ok"), f"o{number}", 1)

    with listening() as heard:
        async with live.running(s.Orders, policy=policy(), limits=FULL):
            await heard.wait("breaker.open")

    one = await shown(live)
    assert one.breaker is not None
    assert one.breaker.reason in {f"{n} keys failed within 60 s" for n in (20, 25)}, (
        "as above: two batches are open"
    )


async def test_it_closes_by_itself_when_the_trouble_is_over(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(150):
        await live.publish(OrderNoted("bad"), f"o{number}", 1)
    for number in range(100):
        await live.publish(OrderNoted("ok"), f"p{number}", 1)

    with listening() as heard:
        async with live.running(s.Orders, policy=policy(open_s=0.3), limits=FULL):
            await heard.wait("breaker.open")
            s.trouble.poison.clear()
            await heard.wait("breaker.half_open")
            await heard.wait("breaker.closed")
            await live.settled(s.Orders)

    assert heard.counts["breaker.open"] == 1
    assert (await shown(live)).breaker is None
    assert len([row for row in await live.rows("orders") if row[0].startswith("p")]) == 100
    assert await live.unaccounted(s.Orders) == []


async def test_a_probe_that_fails_opens_it_for_longer_and_tries_few_keys(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(400):
        await live.publish(OrderNoted("bad"), f"o{number}", 1)

    with listening() as heard:
        async with live.running(s.Orders, policy=policy(), limits=FULL):
            await heard.wait("breaker.open")
            await live.pool.execute("update projectionist.consumer_breakers set until = clock_timestamp()")
            await heard.wait("breaker.half_open")  # the batch beside the one that opened it is over too
            before = (await shown(live)).heads["waiting"]
            await heard.wait("breaker.open", 2)
            one = await shown(live)
            openings = await inspection.value(live, "consumer_breakers", "openings")

    assert one.heads["waiting"] - before <= 20
    assert one.heads["waiting"] <= 200
    assert openings == 2


async def test_a_probe_has_one_batch_open_at_a_time(live: ConsumerHarness) -> None:
    """While its first batch waits to report what has failed, no other tries further keys."""
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(400):
        await live.publish(OrderNoted("bad"), f"o{number}", 1)

    with listening() as heard:
        async with (
            live.running(s.Orders, policy=policy(), limits=FULL),
            live.connected() as batches,
            live.connected() as reports,
        ):
            await heard.wait("breaker.open")
            await heard.wait("worker.waiting")
            before = (await shown(live)).heads["waiting"]
            async with reports.transaction():
                async with batches.transaction():
                    await batches.execute(f"lock table {SCHEMA}.inbox in share mode")
                    await live.pool.execute(
                        f"update {SCHEMA}.consumer_breakers set until = clock_timestamp()"
                    )
                    await heard.wait("breaker.half_open")
                    await reports.execute(f"lock table {SCHEMA}.consumer_breakers in exclusive mode")
                await live.blocked(by=reports)
            await heard.wait("breaker.open", 2)
            await heard.wait("worker.waiting", 2)

    # The broker may answer a probe's first request with fewer than it asks for; two batches would be 40.
    assert (await shown(live)).heads["waiting"] - before in range(1, PROBED + 1)


async def test_a_process_with_shorter_pauses_respects_those_of_another(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(50):
        await live.publish(OrderNoted("bad"), f"o{number}", 1)
    with listening() as heard:
        async with live.running(s.Orders, policy=policy()):
            await heard.wait("breaker.open")
    brief = Policy(breaker=BreakerLimits(open_s=1, maximum_s=1))

    with listening() as heard:
        async with live.running(s.Orders, policy=brief):
            await heard.wait("worker.waiting")

    one = await shown(live)
    assert one.breaker is not None
    assert one.breaker.state == "open"
    assert one.breaker.until_s > 60, "longer than a probe may take"
    assert heard.counts["breaker.half_open"] == 0


async def test_of_two_processes_one_probes_and_both_go_on_after_it(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(200):
        await live.publish(OrderNoted("bad"), f"o{number}", 1)

    with listening() as heard:
        async with live.running(s.Orders, processes=2, policy=policy(open_s=0.5), limits=FULL):
            await heard.wait("breaker.open")
            s.trouble.poison.clear()
            await live.publish_all((OrderNoted("ok"), f"q{n}", 1, f"q{n}") for n in range(200))
            await heard.wait("breaker.closed")
            await live.settled(s.Orders)

    assert heard.counts["breaker.half_open"] == 1
    assert len([row for row in await live.rows("orders") if row[0].startswith("q")]) == 200


async def test_a_verb_closes_it_at_once_and_is_recorded(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(120):
        await live.publish(OrderNoted("bad"), f"o{number}", 1)

    with listening() as heard:
        async with live.running(s.Orders, policy=policy(), limits=FULL):
            await heard.wait("breaker.open")
            await heard.wait("worker.waiting", 2)  # a batch that was open beside it has told what failed, too
            s.trouble.poison.clear()
            async with live.pool.acquire() as connection:
                assert await consumer_breaker.reset(connection, SCHEMA, "Orders", ACT)
                assert not await consumer_breaker.reset(connection, SCHEMA, "Orders", ACT)
            await live.publish(OrderPlaced("bob", 1), "fresh", 1)
            await live.settled(s.Orders)

    assert ("fresh", "placed", 1, '["placed"]') in await live.rows("orders")
    assert await live.fetch(
        "select who, action, object, reason from {s}.audit where action like 'breaker%'"
    ) == [("ann", "breaker-reset", "Orders: Orders", "the service is back")]


async def test_new_code_is_tried_whatever_the_old_one_did(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    for number in range(120):
        await live.publish(OrderNoted("bad"), f"o{number}", 1)
    with listening() as heard:
        async with live.running(s.Orders, policy=policy(), limits=FULL):
            await heard.wait("breaker.open")
    await live.value("update {s}.views set code = '\\x00' where name = 'Orders' returning 1")
    s.trouble.poison.clear()

    await live.settle(s.Orders, policy=policy())

    assert (await shown(live)).breaker is None


async def test_a_few_aggregates_whose_versions_the_subjects_do_not_lead_to_open_it(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    live.tampered = True  # some events are nobody's
    await live.migrate(s.Orders)
    for number in range(3):
        await live.publish(OrderNoted("one"), f"o{number}", 1, place="archive")
        await live.publish(OrderNoted("two"), f"o{number}", 2)

    async with live.running(s.Orders, policy=policy()):
        await eventually(lambda: opened(live))

    one = await shown(live)
    assert one.breaker is not None
    assert "subjects= do not lead to" in one.breaker.reason


async def opened(live: ConsumerHarness) -> bool:
    """Whether the breaker is open."""
    return (await shown(live)).breaker is not None
