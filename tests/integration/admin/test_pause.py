"""A consumer that is paused applies nothing, in no process and after no restart, and loses nothing by it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import eventually, listening

from projectionist.projections import definition
from projectionist.runner.batch.consumer import Paused

pytestmark = pytest.mark.asyncio
WHY = ("--reason", "maintenance")


async def ack_floor(live: ConsumerHarness, cls: type) -> int:
    """How far the broker says that a consumer has settled its stream."""
    durable = await inspection.durable_name(live, definition(cls).name)
    info = await live.nats.jetstream().consumer_info(live.stream.name, durable)
    assert info.ack_floor is not None
    return int(info.ack_floor.stream_seq)


async def test_nothing_is_applied_or_acked_while_paused_and_all_of_it_afterwards(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    cli, s = Cli(live, tmp_path), shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    async with live.running(s.Orders, s.Spend):
        await live.settled(s.Orders, s.Spend)
        assert await cli.done("pause", "Orders", *WHY) == "Orders: is paused\n"
        with listening() as heard:
            await live.publish(OrderPaid(5), "o1", 2)
            await live.publish(OrderNoted("late"), "o1", 3)
            await live.settled(s.Spend)
            await heard.wait("worker.waiting", 2)
        assert await live.head(s.Orders, "order/o1") == (1, "clear", 0)
        assert await live.head(s.Spend, "order/o1") == (3, "clear", 0)
        assert await ack_floor(live, s.Orders) == 1
        assert (
            await live.value(
                "select count(*) from {s}.inbox i join {s}.consumers c on c.number = consumer where name = 'Orders'"
            )
            == 1
        )

        assert await cli.done("resume", "Orders", *WHY) == "Orders: goes on\n"
        await live.settled(s.Orders)
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)
    assert await ack_floor(live, s.Orders) == 3


async def test_status_says_who_has_paused_it_and_why(live: ConsumerHarness, tmp_path: Path) -> None:
    cli, s = Cli(live, tmp_path), shop(live.stream)
    await live.migrate(s.Orders)
    assert (await cli.seen("pause", "Orders", *WHY)) == {"consumer": "Orders", "changed": True}
    assert await cli.done("pause", "Orders", *WHY) == "Orders: was paused already\n"

    shown = await cli.done("status")
    assert "Orders: paused by ann at " in shown
    assert shown.rstrip().endswith(": maintenance. `projectionist resume Orders --reason …`")
    [one] = (await cli.seen("status"))["consumers"]
    assert (one["paused"], one["pause"]["who"], one["pause"]["reason"]) == (True, "ann", "maintenance")

    await cli.done("resume", "Orders", "--reason", "done", "--actor", "bob")
    assert await cli.done("resume", "Orders", *WHY) == "Orders: was not paused\n"
    [one] = (await cli.seen("status"))["consumers"]
    assert (one["paused"], one["pause"]) == (False, None)
    acts = (await cli.seen("audit", "--consumer", "Orders"))["acts"]
    assert [(a["who"], a["action"], a["reason"]) for a in acts] == [
        ("ann", "pause", "maintenance"),
        ("bob", "resume", "done"),
    ]
    assert "there is no consumer 'Nobody'" in await cli.refused("pause", "Nobody", *WHY)


async def test_a_pause_survives_the_processes(live: ConsumerHarness, tmp_path: Path) -> None:
    cli, s = Cli(live, tmp_path), shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await cli.done("pause", "Orders", *WHY)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    for _ in range(2):
        async with projectionist("run", APP, env=environment(live)) as process:
            await process.heard("worker.waiting")
            await eventually(lambda: live.value("select count(*) from spend"))
    assert await live.rows("orders") == []

    await cli.done("resume", "Orders", *WHY)
    async with projectionist("run", APP, env=environment(live)):
        await eventually(lambda: live.value("select count(*) from orders"))
    assert json.loads((await live.rows("orders"))[0][3]) == ["placed"]


async def test_a_pause_waits_for_the_open_batch_and_the_next_one_sees_it(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    cli, s = Cli(live, tmp_path), shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        holder = await asyncpg.connect(live.database)
        transaction = holder.transaction()
        await transaction.start()
        store, _ = await driver.session.ready()
        await holder.execute(store._sql["lock_consumer_shared"], store._barrier)
        pausing = asyncio.create_task(cli.done("pause", "Orders", *WHY))
        await live.blocked()
        assert not pausing.done()
        await transaction.commit()
        await holder.close()
        await pausing
        with pytest.raises(Paused):
            await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))


async def test_a_batch_that_never_ends_is_not_waited_for_for_ever(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    cli, s = Cli(live, tmp_path, PROJECTIONIST_POSTGRES__LOCK_S="0.2"), shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        store, _ = await driver.session.ready()
        holder = await asyncpg.connect(live.database)
        async with holder.transaction():
            await holder.execute(store._sql["lock_consumer_shared"], store._barrier)
            told = await cli.refused("pause", "Orders", *WHY)
        await holder.close()
    assert "a batch of 'Orders' has been open for longer than lock_s" in told
