"""The teeth of the ledger: a fault planted in tables, stream or provider is told by what it breaks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.support import inspection
from tests.support.ledger import read_ledger, violations
from tests.support.servers import Servers
from tests.support.shop import OrderShipped
from tests.support.stub_provider import Seen
from tests.support.sweep import Scene, opened
from tests.support.sweep_app import POISON
from tests.support.sweep_chapters import sent_story

pytestmark = pytest.mark.asyncio

Plant = Callable[[Scene], Awaitable[None]]


def sql(*statements: str) -> Plant:
    """What somebody does to our tables."""

    async def plant(scene: Scene) -> None:
        for statement in statements:
            await scene.live.pool.execute(statement.replace("{s}", "projectionist"))

    return plant


async def key_changed(scene: Scene) -> None:
    """The second attempt goes out under another key, and is done again."""
    first = scene.stub.seen[0]
    again = Seen(first.method, first.target, {"idempotency-key": "other"}, first.body)
    scene.stub.seen.append(again)
    scene.stub.execute(again)


async def content_changed(scene: Scene) -> None:
    """The second attempt of a key says something else."""
    first = scene.stub.seen[0]
    scene.stub.seen.append(Seen(first.method, first.target, first.headers, b"{}"))


async def done_twice(scene: Scene) -> None:
    """The provider has done one key again."""
    scene.stub.executions[scene.stub.seen[-1].key] += 1


async def order_changed(scene: Scene) -> None:
    """Of one aggregate the second intent went first."""
    by_lane = [one for one in scene.stub.seen if b"o4" in one.body]
    first, second = (scene.stub.seen.index(one) for one in by_lane[:2])
    scene.stub.seen[first], scene.stub.seen[second] = scene.stub.seen[second], scene.stub.seen[first]


async def acked_before_its_commit(scene: Scene) -> None:
    """A message is acked, and nothing of it is written."""
    await scene.live.publish(OrderShipped(), "o3", 4, id="o3:4")
    durable = await inspection.durable_name(scene.live, "Orders")
    js = scene.live.nats.jetstream()
    subscription = await js.pull_subscribe_bind(durable, scene.live.stream.name)
    (message,) = await subscription.fetch(1)
    await message.ack_sync()
    await subscription.unsubscribe()


FAULTS: dict[str, tuple[Plant, str]] = {
    "a row is changed": (
        sql("update {s}.orders__g1 set status = 'new' where order_id = 'o3'"),
        "I2 orders has [('o3', 'new'",
    ),
    "an event is applied twice": (
        sql("update {s}.spend__g1 set orders = orders + 1, cents = cents + 3 where customer = 'ann'"),
        "I2 orders are worth 9, and customers have spent 12",
    ),
    "a row is lost": (sql("delete from {s}.orders__g1 where order_id = 'o2'"), "I2 orders lacks [('o2'"),
    "an event is applied without its row in the inbox": (
        sql("delete from {s}.inbox where id = 'o3:2'"),
        "I4 order/o3 stands at 3 and has not applied [2] (Orders)",
    ),
    "a parked event is never drained": (
        sql(
            "update {s}.positions set version = 2 where aggregate = 'order/o4'",
            "update {s}.inbox set state = 'parked' where id = 'o4:3'",
        ),
        "I5 order/o4 stands at 2, and everything up to 3 is there: it was not drained (Orders)",
    ),
    "an event is parked in one place alone": (
        sql("delete from {s}.parked where id = 'o2:3'"),
        "I3 parked by inbox or table alone: [('shop', 'o2:3')",
    ),
    "an intent is lost": (
        sql("delete from {s}.intents where id = 'o1:5'"),
        "I3 the intent of ('shop', 'o1:5') is lost",
    ),
    "an intent is nobody's": (
        sql(
            "update {s}.intents set id = 'ghost' where seq = (select min(seq) from {s}.intents where id = 'o4:2')"
        ),
        "I6 the intent of ('shop', 'ghost') leads back to no applied event",
    ),
    "an intent is taken for sent": (
        sql("update {s}.intents set key = 'unsent' where id = 'o3:2'"),
        "I7 unsent is sent, and the provider has not done it",
    ),
    "a key changes between attempts": (
        key_changed,
        "I6 the provider was asked for other, which is no intent's",
    ),
    "a content changes between attempts": (content_changed, "was sent with 2 contents"),
    "an effect happens twice": (done_twice, "was executed 2 times"),
    "effects of an aggregate change places": (
        order_changed,
        "was sent in another order than it was written in",
    ),
    "an ack comes before its commit": (
        acked_before_its_commit,
        "was acked before anything of it was committed (Orders)",
    ),
}


async def test_each_planted_fault_is_told_by_what_it_breaks(servers: Servers) -> None:
    async with opened(servers) as scene:
        await sent_story(scene)
        known: set[str] = set()

        async def told() -> set[str]:
            return set(violations(await read_ledger(scene.live, (POISON,), scene.stub)))

        assert await told() == set()
        for fault, (plant, wanted) in FAULTS.items():
            await plant(scene)
            found = await told()
            assert any(wanted in line for line in found - known), f"{fault}: {sorted(found - known)}"
            known = found
