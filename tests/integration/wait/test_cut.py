"""One cut over several consumers: whoever has the token of an event is answered for each of them."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nats.aio.msg import Msg
from tests.crash.test_run import stop
from tests.support.app_waiter import waiting
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.rebuilding import RebuildHarness
from tests.support.recording import CartOpened, CartPaid, RecordingApp
from tests.support.servers import Servers, Stream
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import HANG_S

from projectionist.outbox.publishing.publisher import Published, Publisher, PublishError
from projectionist.projections.event import Event
from projectionist.runner import App
from projectionist.runner.app import AppError
from projectionist.runner.wait.outcome import WaitOutcome, WaitResult
from projectionist.runner.wait.stored_events import CannotWait

pytestmark = pytest.mark.asyncio

APPLIED = WaitResult(WaitOutcome.APPLIED)


def app_of(live: ConsumerHarness, *classes: type) -> App:
    return waiting(App(projections=classes, settings=live.settings), live.settings)


async def published(live: ConsumerHarness, event: Event, order: str, version: int) -> str:
    """Publish as a producer does; the token that it passes on."""
    subject = live.stream.subject("order", "{id}")
    async with Publisher(live.nats, source="shop", subject=subject) as publisher:
        ack = await publisher.publish(
            event, aggregate=f"order/{order}", version=version, id=f"{order}:{version}"
        )
        return await publisher.token(ack)


@asynccontextmanager
async def counted_reads(live: ConsumerHarness) -> AsyncIterator[list[bytes]]:
    """Collect who asks for messages of the stream."""
    asked: list[bytes] = []

    async def note(message: Msg) -> None:
        asked.append(message.data)

    watch = await live.nats.subscribe(f"$JS.API.STREAM.MSG.GET.{live.stream.name}", cb=note)
    await live.nats.flush()
    yield asked
    await watch.unsubscribe()


async def test_a_token_is_answered_for_each_consumer_when_the_last_of_them_has_its_event(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    app = app_of(live, s.Orders, s.Spend)
    token = await published(live, OrderPlaced("ann", 7), "o1", 1)
    cut = asyncio.create_task(app.wait_for_all([s.Spend, "Orders"], token, timeout_s=HANG_S))
    async with live.running(s.Orders, processes=2):
        assert (await app.wait_for(s.Orders, "order/o1", 1, timeout_s=HANG_S)).is_applied
        assert not cut.done()
        async with live.running(s.Spend, processes=2):
            assert await cut == [APPLIED, APPLIED]
    async with counted_reads(live) as asked:  # no runner is at work, which reads the stream too
        assert await app.wait_for_all([s.Orders, s.Spend], token, timeout_s=HANG_S) == [APPLIED, APPLIED]
        await live.nats.flush()
    assert len(asked) == 1, "one message, one reading, whoever waits for it"
    assert await live.rows("spend") == [("ann", 1, 7)]
    assert [row[:3] for row in await live.rows("orders")] == [("o1", "placed", 7)]


async def test_each_consumer_has_an_answer_of_its_own(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders, s.Spend)
    app = app_of(live, s.Orders, s.Spend)
    await published(live, OrderPlaced("ann", 7), "o1", 1)
    token = await published(live, OrderNoted("bad"), "o1", 2)
    async with live.running(s.Orders, s.Spend):
        orders, spend = await app.wait_for_all([s.Orders, s.Spend], token, timeout_s=HANG_S)
    assert (orders.outcome, spend.outcome) == (WaitOutcome.PARKED, WaitOutcome.IGNORED)


async def test_a_token_of_a_stream_that_was_made_anew_or_of_another_one_is_refused(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    app = app_of(live, s.Orders, s.Spend)
    token = await published(live, OrderPlaced("ann", 7), "o1", 1)
    js = live.nats.jetstream()
    await js.delete_stream(live.stream.name)
    await js.add_stream(name=live.stream.name, subjects=[live.stream.subjects])
    await published(live, OrderPlaced("bob", 8), "o2", 1)  # the same sequence, and another event
    with pytest.raises(CannotWait, match="is of another stream than"):
        await app.wait_for_all([s.Orders, s.Spend], token, timeout_s=HANG_S)
    with pytest.raises(CannotWait, match=f"Orders reads {live.stream.name}, Spend reads"):
        await app.wait_for_all([s.Orders, s.Spend], "OTHER:00000000:1", timeout_s=HANG_S)
    with pytest.raises(CannotWait, match="stream:created-hash:sequence"):
        await app.wait_for_all([s.Orders], "o1", timeout_s=HANG_S)
    with pytest.raises(AppError, match="no consumer is named"):
        await app.wait_for_all([], token)
    async with Publisher(live.nats, source="shop", subject=live.stream.subject("order", "{id}")) as publisher:
        with pytest.raises(PublishError, match="it was made anew since"):
            await publisher.token(Published(live.stream.name, 2, duplicate=False))
        with pytest.raises(PublishError, match="the broker does not describe the stream NONE"):
            await publisher.token(Published("NONE", 1, duplicate=False))


async def test_one_consumer_that_cannot_be_waited_for_ends_the_wait_for_all(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    app = app_of(live, s.Orders, s.Spend)
    token = await published(live, OrderPlaced("ann", 7), "o1", 1)
    with pytest.raises(CannotWait, match="'Spend' is not in the database yet"):
        await asyncio.wait_for(app.wait_for_all([s.Orders, s.Spend], token, timeout_s=600), HANG_S)


async def test_what_record_returned_names_its_event_to_readers_elsewhere(
    live: ConsumerHarness, servers: Servers, database: str, stream: Stream
) -> None:
    cart = RecordingApp(servers, database, stream)
    await live.migrate(cart.view)
    app = waiting(cart.app, cart.settings)
    async with cart.app.publisher() as publisher:
        recorded = await publisher.record("cart/1", CartOpened("ann"), CartPaid(7), expected_version=0)
    assert recorded.token is not None
    async with live.pool.acquire() as connection, connection.transaction():
        outboxed = await cart.app.outbox(connection).record("cart/2", CartOpened("bob"), expected_version=0)
    assert outboxed.token is None, "the relay is yet to publish it"
    async with live.running(cart.view):
        for event in (recorded, recorded.token):
            assert await app.wait_for_all([cart.view], event, timeout_s=HANG_S) == [APPLIED]
        unpublished = await app.wait_for_all([cart.view], outboxed, timeout_s=0.1)
    assert [one.outcome for one in unpublished] == [WaitOutcome.PENDING]


async def test_a_killed_process_and_a_swap_between_publish_and_answer_change_no_answer(
    rebuilds: RebuildHarness,
) -> None:
    live = rebuilds.harness
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    app = app_of(live, s.Orders, s.Spend)
    await published(live, OrderPlaced("ann", 7), "o1", 1)
    await live.settle(s.Orders, s.Spend)
    env = environment(live)
    async with projectionist("run", APP, env=env, pause_at={"batch.written": 1}) as doomed:
        await doomed.heard("worker.running", 2)
        token = await published(live, OrderNoted("x"), "o1", 2)
        cut = asyncio.create_task(app.wait_for_all([s.Orders, s.Spend], token, timeout_s=HANG_S))
        await doomed.paused("batch.written")
        doomed.signal(signal.SIGKILL)
        await doomed.ended()
        await rebuilds.rebuild(s.Orders)
        assert not cut.done()
        async with projectionist("run", APP, env=env) as other:
            assert {one.outcome for one in await cut} == {WaitOutcome.APPLIED, WaitOutcome.IGNORED}
            await stop(other)
    assert await live.rows("orders") == [("o1", "placed", 7, '["placed", "x"]')]


async def test_the_command_waits_for_each_by_a_token(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders, s.Spend)
    first = await published(live, OrderPlaced("ann", 7), "o1", 1)
    bad = await published(live, OrderNoted("bad"), "o1", 2)
    await live.settle(s.Orders, s.Spend)

    async def wait(*words: str) -> tuple[int, str]:
        async with projectionist("wait", APP, "Orders", "Spend", *words, env=environment(live)) as child:
            ended = await child.ended()
            return ended.code, ended.out.strip() or ended.err.strip()

    assert await wait("--token", first) == (0, "Orders: applied\nSpend: applied")
    code, text = await wait("--token", bad, "--json")
    told = json.loads(text)["consumers"]
    assert (code, {name: one["outcome"] for name, one in told.items()}) == (
        3,
        {"Orders": "parked", "Spend": "ignored"},
    )
    code, text = await wait("--token", "o1")
    assert code != 0
    assert "is no token of an event" in text
    assert (await wait("--token", first, "--seq", "1"))[0] == 2
