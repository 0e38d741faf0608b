"""Reading one's own writes: who waits is answered as soon as it is applied, or as soon as it cannot be by itself."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from tests.support import inspection
from tests.support.app_waiter import looked, waiting
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import tuned
from tests.support.process import projectionist
from tests.support.retention import age, purge
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderShipped, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import HANG_S

from projectionist.core.digest import stand_in
from projectionist.core.operator import Act
from projectionist.outbox.publishing.publisher import Published
from projectionist.runner import App
from projectionist.runner.app import AppError
from projectionist.runner.wait.outcome import WaitOutcome, WaitResult
from projectionist.runner.wait.stored_events import CannotWait

pytestmark = pytest.mark.asyncio

SESSIONS = "select count(*) from pg_stat_activity where application_name = 'projectionist wait'"


def app_of(live: ConsumerHarness, *classes: type, **times: float) -> App:
    """An app whose waiter takes a consumer that nobody runs to be about to be run, however long that takes."""
    app = App(projections=classes, settings=live.settings)
    return waiting(app, live.settings, **times)


def ack(live: ConsumerHarness, seq: int) -> Published:
    return Published(live.stream.name, seq, duplicate=False)


async def test_who_waits_is_answered_when_the_version_is_applied_and_not_before(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    app = app_of(live, s.Orders)
    waiting = asyncio.create_task(app.wait_for(s.Orders, "order/o1", 2, timeout_s=HANG_S))
    async with live.running(s.Orders):
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        assert await app.wait_for(s.Orders, "order/o1", 1, timeout_s=HANG_S) == WaitResult(
            WaitOutcome.APPLIED
        )
        assert not waiting.done()
        seq = await live.publish(OrderPaid(), "o1", 2)
        assert (await waiting).is_applied
        assert await live.rows("orders") == [("o1", "paid", 1, '["placed", "paid"]')]
        assert await app.wait_for("Orders", ack=ack(live, seq), timeout_s=HANG_S) == WaitResult(
            WaitOutcome.APPLIED
        )


async def test_what_is_only_stored_is_waited_for_until_it_is_applied(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    tuned(live, policy={"ack": "after-store"})
    app = app_of(live, s.Orders)
    async with live.running(s.Orders):
        seqs = [await live.publish(OrderPlaced("ann", 1), f"o{n}", 1) for n in range(5)]
        answers = [await app.wait_for(s.Orders, ack=ack(live, seq), timeout_s=HANG_S) for seq in seqs]
        assert answers == [WaitResult(WaitOutcome.APPLIED)] * 5
        assert len(await live.rows("orders")) == 5


async def test_an_event_that_failed_or_waits_behind_one_is_told_at_once_with_the_reason(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    app = app_of(live, s.Orders)
    async with live.running(s.Orders):
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        seq = await live.publish(OrderNoted("bad"), "o1", 2)
        failed = await app.wait_for(s.Orders, "order/o1", 2, timeout_s=HANG_S)
        assert failed.outcome == WaitOutcome.PARKED
        told = stand_in("cannot digest bad", "ValueError")
        assert failed.reason == f"it failed ({told}); it waits for new code or a person"
        assert await app.wait_for(s.Orders, ack=ack(live, seq), timeout_s=HANG_S) == failed
        behind = await app.wait_for(s.Orders, "order/o1", 3, timeout_s=HANG_S)
        assert str(behind).startswith("parked, because version 2 failed (ValueError")
    async with live.verbs(s.Orders) as verbs:
        await verbs.skip("order/o1", Act("ann", "nonsense"))
    assert await app.wait_for(s.Orders, "order/o1", 2, timeout_s=HANG_S) == WaitResult(WaitOutcome.SKIPPED)


async def test_a_lost_version_is_told_and_a_reordering_is_waited_out(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    tuned(live, policy={"gap_fetch_delay_ms": 300})
    app = app_of(live, s.Orders)
    async with live.running(s.Orders):
        await live.publish(OrderPaid(), "o1", 2)
        await inspection.reaches("gap", inspection.head_state, live)
        waiting = asyncio.create_task(app.wait_for(s.Orders, "order/o1", 2, timeout_s=HANG_S))
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        assert await waiting == WaitResult(WaitOutcome.APPLIED)

        await live.publish(OrderPlaced("ann", 1), "o2", 1)
        await live.publish(OrderPaid(), "o2", 3)
        lost = await app.wait_for(s.Orders, "order/o2", 3, timeout_s=HANG_S)
        assert str(lost).startswith("parked, because a version after 1 is missing (lost)")


async def test_the_answer_of_a_publish_says_what_never_concerns_the_consumer(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    app = app_of(live, s.Orders)
    live.tampered = True  # the stream holds what is not for this consumer
    other = await live.publish(OrderPlaced("ann", 1), "c1", 1, kind="customer")
    shipped = await live.publish(OrderShipped(), "o1", 1)
    torn = await live.publish_raw(b"x", {"ce-id": "torn"}, "o2")
    async with live.running(s.Orders):
        assert (
            await app.wait_for(s.Orders, ack=ack(live, other), timeout_s=HANG_S)
        ).outcome == WaitOutcome.NOT_MEANT
        assert (
            await app.wait_for(s.Orders, ack=Published("OTHER", 1, duplicate=False), timeout_s=HANG_S)
        ).outcome == (WaitOutcome.NOT_MEANT)
        assert await app.wait_for(s.Orders, ack=ack(live, shipped), timeout_s=HANG_S) == WaitResult(
            WaitOutcome.IGNORED
        )
        quarantined = await app.wait_for(s.Orders, ack=ack(live, torn), timeout_s=HANG_S)
        assert quarantined.outcome == WaitOutcome.QUARANTINED
        assert quarantined.reason


async def test_answers_at_once_share_a_connection_and_leave_none_behind(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    live.tampered = True
    app = app_of(live, s.Orders, linger_s=HANG_S)
    other = await live.publish(OrderPlaced("ann", 1), "c1", 1, kind="customer")
    opened = set()
    for _ in range(3):
        answers = await asyncio.gather(
            *(app.wait_for(s.Orders, ack=ack(live, other), timeout_s=HANG_S) for _ in range(20))
        )
        assert {answer.outcome for answer in answers} == {WaitOutcome.NOT_MEANT}
        opened.add(await live.value(SESSIONS.replace("count(*)", "max(pid)")))
        assert await live.value(SESSIONS) == 1
    assert len(opened) == 1
    app._waiters[
        asyncio.get_running_loop()
    ]._linger_s = 0.01  # until here none was closed for want of callers, however slow the machine is
    await app.wait_for(s.Orders, ack=ack(live, other), timeout_s=HANG_S)
    await live.value_of(SESSIONS, 0)


async def test_an_event_is_answered_by_its_own_row_and_not_by_another_of_its_version(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    app = app_of(live, s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1, id="first")
    await live.settle(s.Orders)
    second = await live.publish(OrderPlaced("bob", 999), "o1", 1, id="second")
    unread = await looked(partial(app.wait_for, s.Orders, ack=ack(live, second)))
    assert unread.outcome == WaitOutcome.PENDING
    assert "version 1 is that of another event" in unread.reason
    assert unread.reason.endswith("first")
    async with live.running(s.Orders):
        read = await app.wait_for(s.Orders, ack=ack(live, second), timeout_s=HANG_S)
    assert read.outcome == WaitOutcome.QUARANTINED
    assert await app.wait_for(s.Orders, "order/o1", 1, timeout_s=HANG_S) == WaitResult(WaitOutcome.APPLIED)


@pytest.mark.parametrize("hashes", ["raw", "canonical"])
async def test_a_publish_is_answered_by_its_own_content_and_not_by_another_of_its_id(
    live: ConsumerHarness, hashes: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    tuned(live, policy={"hash": hashes})
    app = app_of(live, s.Orders)
    async with live.running(s.Orders):
        first = await live.publish(OrderPlaced("ann", 1), "o1", 1, id="once")
        assert (await app.wait_for(s.Orders, ack=ack(live, first), timeout_s=HANG_S)).is_applied
    again = await live.publish(OrderPlaced("ann", 1), "o1", 1, id="once")
    other = await live.publish(OrderPlaced("ann", 2), "o1", 1, id="once")
    assert (await app.wait_for(s.Orders, ack=ack(live, other), timeout_s=1)).outcome == WaitOutcome.PENDING
    assert (await app.wait_for(s.Orders, ack=ack(live, again), timeout_s=HANG_S)).is_applied
    async with live.running(s.Orders):
        found = await app.wait_for(s.Orders, ack=ack(live, other), timeout_s=HANG_S)
        assert found.outcome == WaitOutcome.QUARANTINED
    assert (await app.wait_for(s.Orders, ack=ack(live, first), timeout_s=HANG_S)).is_applied


async def test_an_event_removed_by_retention_is_applied_by_version_and_else_forgotten(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    seq = await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Spend)
    await age(live, 31)
    await purge(live, s.Spend)
    app = app_of(live, s.Spend)
    assert await app.wait_for(s.Spend, "order/o1", 1, timeout_s=HANG_S) == WaitResult(WaitOutcome.APPLIED)
    await live.nats.jetstream().delete_msg(live.stream.name, seq)
    assert (
        await app.wait_for(s.Spend, ack=ack(live, seq), timeout_s=HANG_S)
    ).outcome == WaitOutcome.FORGOTTEN


async def test_without_order_the_identity_is_waited_for(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    app = app_of(live, s.Orders)
    async with live.running(s.Orders):
        seq = await live.publish(OrderPlaced("ann", 1), "o1", None)
        assert await app.wait_for(s.Orders, ack=ack(live, seq), timeout_s=HANG_S) == WaitResult(
            WaitOutcome.APPLIED
        )
        bad = await live.publish(OrderNoted("bad"), "o1", None)
        assert (
            await app.wait_for(s.Orders, ack=ack(live, bad), timeout_s=HANG_S)
        ).outcome == WaitOutcome.PARKED
    with pytest.raises(CannotWait, match="has no order"):
        await app.wait_for(s.Orders, "order/o1", 1, timeout_s=HANG_S)


async def test_a_thousand_who_wait_share_one_connection_which_is_closed_after_them(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    app = app_of(live, s.Orders, linger_s=0.01)
    waiting = [
        asyncio.create_task(app.wait_for(s.Orders, f"order/o{n}", 1, timeout_s=HANG_S)) for n in range(1000)
    ]
    await live.value_of(SESSIONS, 1)
    await live.publish_all([(OrderPlaced("ann", 1), f"o{n}", 1, f"e{n}") for n in range(1000)])
    most = 0
    async with live.running(s.Orders):
        while not all(task.done() for task in waiting):
            most = max(most, await live.value(SESSIONS))
            await asyncio.wait(waiting, timeout=0.02)
    assert most <= 1
    assert {task.result() for task in waiting} == {WaitResult(WaitOutcome.APPLIED)}
    await live.value_of(SESSIONS, 0)


async def test_time_that_is_over_says_how_far_it_is_and_an_outage_is_no_error(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    app = app_of(live, s.Orders)
    assert await app.wait_for(s.Orders, "order/o1", 1, timeout_s=0) == WaitResult(
        WaitOutcome.PENDING, "it could not be looked at: no answer within 0 s"
    )
    late = await looked(partial(app.wait_for, s.Orders, "order/o1", 1))
    assert late == WaitResult(WaitOutcome.PENDING, "the consumer has seen nothing of it yet")
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    late = await looked(partial(app.wait_for, s.Orders, "order/o1", 2))
    assert late.reason == "the consumer is at version 1, the head is clear"
    tuned(live, url="postgresql://nobody@127.0.0.1:1/none")
    away = await looked(partial(app_of(live, s.Orders).wait_for, s.Orders, "order/o1", 1))
    assert away.outcome == WaitOutcome.PENDING
    assert "cannot be reached" in away.reason


@pytest.mark.parametrize(
    "given", [{}, {"aggregate": "order/o1"}, {"aggregate": "o1", "version": 1}, {"version": 1}]
)
async def test_what_is_not_clear_cannot_be_waited_for(live: ConsumerHarness, given: dict[str, Any]) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    with pytest.raises((AppError, CannotWait)):
        await app_of(live, s.Orders).wait_for(s.Orders, **given)


async def test_the_command_waits_and_its_exit_code_says_what_became_of_it(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    s.trouble.poison.add("bad")
    await live.publish(OrderPlaced("ann", 1), "o1", 1, id="first")
    await live.publish(OrderNoted("bad"), "o1", 2)
    await live.settle(s.Orders)

    async def wait(*words: str) -> tuple[int, str]:
        async with projectionist("wait", APP, "Orders", *words, env=environment(live)) as child:
            ended = await child.ended()
            return ended.code, ended.out.strip() or ended.err.strip()

    assert await wait("order/o1", "1") == (0, "applied")
    assert await wait("--seq", "1") == (0, "applied")
    assert await wait("--source", "shop", "--id", "first") == (0, "applied")
    code, text = await wait("order/o1", "2", "--json")
    assert (code, json.loads(text)["outcome"]) == (3, "parked")
    assert await wait("order/o9", "1", "--timeout", "60") == (3, "not_served, because no process runs it")
    assert (await wait())[0] == 2


PAUSED = "update {s}.consumers set paused = true returning 1"
OPENED = (
    "update {s}.consumer_breakers set state = 'open', reason = '3 keys failed', until = now() + interval '1 hour'"
    " returning 1"
)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("select 1", "no process runs it"),
        (PAUSED, "it is paused"),
        (OPENED, "its breaker is open: 3 keys failed"),
    ],
    ids=["nobody", "paused", "breaker"],
)
async def test_where_nobody_applies_anything_it_is_said_at_once(
    live: ConsumerHarness, statement: str, told: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.settle(s.Orders)
    await live.value(statement)
    app = app_of(live, s.Orders, nobody_s=0.5)

    seq = await live.publish(OrderPaid(), "o1", 2)
    waits = (
        app.wait_for(s.Orders, "order/o1", 2, timeout_s=600),
        app.wait_for(s.Orders, ack=ack(live, seq), timeout_s=600),
    )
    for answer in await asyncio.wait_for(asyncio.gather(*waits), HANG_S):
        assert answer == WaitResult(WaitOutcome.NOT_SERVED, told)
    assert await app.wait_for(s.Orders, "order/o1", 1, timeout_s=HANG_S) == WaitResult(WaitOutcome.APPLIED), (
        "what is there is there"
    )
