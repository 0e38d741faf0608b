"""PostgreSQL fails over: its standby is read-only first, then takes writes, and may lack what was acked."""

from __future__ import annotations

import asyncpg
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import gateway
from tests.support.load import Load, tuned
from tests.support.shop import shop
from tests.support.standby import standby
from tests.support.waiting import listening

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("lacking", [False, True], ids=["with everything", "without the last commits"])
async def test_a_standby_that_is_promoted_goes_on_and_reads_again_what_it_lacks(
    live: ConsumerHarness, told: list[str], lacking: bool
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    with standby(live.servers) as other:
        async with gateway(live.database) as gate:
            tuned(live, url=gate.url)
            async with live.running(s.Orders, s.Spend, processes=2):
                with listening() as heard:
                    await load.more(30)
                    await live.settled(s.Orders, s.Spend)
                    await heard.wait("stream_guard.recorded", heard.counts["stream_guard.recorded"] + 4)
                    await other.caught_up()
                    if lacking:
                        await other.cut_off()
                        await load.more(20)
                        await live.settled(s.Orders, s.Spend)

                    there = other.url(live.database)
                    gate.follow(there)
                    gate.cut()
                    await load.more(10)
                    await heard.wait("postgres.use.ill")
                    await other.promote()
                    await heard.wait("postgres.use.well")
                    live.pool = await asyncpg.create_pool(there, min_size=0, max_size=4)
                    live.tampered = True  # the old primary, which nobody asks any more, is not sound
                    await live.settled(s.Orders, s.Spend)
        await load.check()
        assert await live.failed_tries() == 0
        live.pool.terminate()

    assert [line for line in told if "failed over" in line or "restored" in line]


async def test_the_old_primary_halts_once_its_standby_was_promoted_and_reads(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(5)
    await live.settle(s.Orders, s.Spend)
    with standby(live.servers) as other:
        await other.caught_up()
        await other.promote()
        with listening() as heard:
            async with live.running(s.Orders, s.Spend):
                tuned(live, url=other.url(live.database))
                async with live.running(s.Orders, s.Spend):
                    await heard.wait("owner.durable_taken", 2)
                    await load.more(20)
                    await live.value_of("select count(*) from orders", 5)
                    there = other.url(live.database)
                    live.pool, before = await asyncpg.create_pool(there, min_size=0, max_size=4), live.pool
                    live.tampered = True  # the old primary, of which nothing is expected any more
                    await live.settled(s.Orders, s.Spend)
        await load.check()
        live.pool.terminate()
        live.pool = before
