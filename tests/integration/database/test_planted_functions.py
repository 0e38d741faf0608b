"""Whoever may create in a schema of the search path has nothing of theirs called by us."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.planting import plant
from tests.support.process import projectionist
from tests.support.retention import age
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio


async def test_what_others_planted_is_called_by_whoever_asks_for_it(live: ConsumerHarness) -> None:
    await plant(live)
    for sql in ("select unnest('{a}'::text[])", "select array_agg('a'::text)", "select 'a'::text || 1"):
        with pytest.raises(Exception, match="planted"):
            await live.value(sql)


async def test_what_others_planted_is_called_by_no_process_and_no_command(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend, s.Journal)
    await plant(live)
    s.trouble.poison.add("bad")
    for number in range(3):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
        await live.publish(OrderPaid(), f"o{number}", 2)
    await live.publish(OrderNoted("bad"), "o0", 3, id="bad")
    await live.publish(OrderPaid(), "o1", 7)
    await live.nats.jetstream().publish(live.stream.subject("order", "o9"), b"{", headers={"ce-id": "odd"})
    await live.settle(s.Orders, s.Spend, s.Journal)
    assert len(await live.rows("orders")) == 3

    process = environment(live, poison="bad")
    cli = Cli(live, tmp_path, more='[retention]\narchive = "table"\n', **process)
    for words in (
        "status",
        f"doctor {APP}",
        "parked list",
        "outbox list",
        "journey bad",
        "parked skip bad --consumer Orders --reason tested",
        f"rebuild {APP} Orders",
        f"recompute {APP} Orders o1 --reason tested",
    ):
        ended = await cli.run(*words.split())
        said = (ended.out + ended.err).replace(str(tmp_path), "")  # the folder bears the name of this test
        assert "planted:" not in said, words
        assert ended.code in (0, 3), f"{words}: {ended.out}{ended.err}"
    await age(live, 400)
    assert "inbox" in await cli.done("purge", APP)
    async with projectionist("run", APP, env=process) as child:
        await live.publish(OrderPlaced("ann", 1), "late", 1)
        await eventually(lambda: live.value("select exists (select from orders where order_id = 'late')"))
        child.signal(signal.SIGTERM)
        assert "planted:" not in (await child.ended()).err
