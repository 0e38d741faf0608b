"""Runners whose batches have a session for a transaction alone, by a pgbouncer that lends few: whatever is killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest
from tests.crash.test_run import POINTS, assert_as_if_nothing_had_happened, scene, stop
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import Load, flowing, killed_twice, tuned
from tests.support.pooler import Pooler, running_pooler
from tests.support.process import projectionist
from tests.support.shop import shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import listening

from projectionist.core.settings.secret import Url

pytestmark = pytest.mark.asyncio

FEW = "3"
"""Sessions behind the pooler: fewer than there are batches that want one."""
KILLED = 4


@contextmanager
def behind(live: ConsumerHarness, size: str = FEW, **options: Any) -> Iterator[Pooler]:
    """Have batches go through a pooler that lends `size` sessions, and all else to the server."""
    more = {"default_pool_size": size, "server_login_retry": "1"}
    with running_pooler(live.servers, live.database, "transaction", **more) as pooler:
        tuned(
            live,
            url=pooler.url,
            postgres={"direct_url": Url(live.database), "lock_s": 1.0},
            run={"heartbeat_s": 1.0},
            policy={"ack_wait_s": 2.0},
            rows=5,
            **options,
        )
        yield pooler


def through(live: ConsumerHarness, pooler: Pooler, **more: str) -> Any:
    """The environment of a process of its own."""
    urls = {"postgres__url": pooler.url, "postgres__direct_url": live.database}
    # A busy machine takes its time, and who slept for longer than its watchdog allows ends itself.
    times = {"run__heartbeat_s": "1", "run__watchdog_timeout_s": "600"}
    return environment(live, **urls, **times, batch__max_rows="5", **more)


@pytest.mark.parametrize("point", [*(f"batch.{point}" for point in POINTS), "batch.acked"])
async def test_a_process_killed_in_a_lent_session_leaves_nothing_half_done(
    live: ConsumerHarness, point: str
) -> None:
    s = await scene(live)
    with behind(live) as pooler:
        env = through(live, pooler, poison="bad")
        async with projectionist("run", APP, env=env, kill_at={point: 1}) as child:
            assert (await child.ended()).code == -signal.SIGKILL
        await live.assert_sound()
        await assert_as_if_nothing_had_happened(live, s)


async def test_of_processes_that_share_few_sessions_one_after_the_other_is_killed(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    with behind(live) as pooler:
        env = through(live, pooler)
        async with flowing(load), AsyncExitStack() as stack:
            children = [await stack.enter_async_context(projectionist("run", APP, env=env)) for _ in range(3)]
            for n in range(KILLED):
                point = f"batch.{POINTS[n % len(POINTS)]}"
                await children[0].heard(point, children[0].announced.get(point, 0) + 3)
                children[0].signal(signal.SIGKILL)
                await children.pop(0).ended()
                children.append(await stack.enter_async_context(projectionist("run", APP, env=env)))
            load.stop()
            await live.settled(s.Orders, s.Spend)
            for child in children:
                await stop(child)
    await load.check(killed=True)


@pytest.mark.parametrize("point", ["batch.entered", "batch.claimed", "batch.written"])
async def test_processes_that_sleep_in_all_sessions_of_a_pool_are_parted_from_them(
    live: ConsumerHarness, told: list[str], point: str
) -> None:
    """Who waits for a session waits for no lock that PostgreSQL could tell of."""
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(20)
    with behind(live, "1") as pooler:
        env = through(live, pooler)
        async with projectionist("run", APP, env=env, pause_at={point: 1}) as sleeper:
            await sleeper.paused(point)
            async with live.running(s.Orders, s.Spend, processes=2):
                await load.more(20)
                await live.settled(s.Orders, s.Spend)
                sleeper.signal(signal.SIGCONT)
                await load.more(10)
                await live.settled(s.Orders, s.Spend)
            await stop(sleeper)
    assert any("silent for" in line for line in told)
    await load.check()


async def test_a_pooler_killed_under_load_is_waited_for_and_nothing_is_lost_or_doubled(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    with behind(live) as pooler:
        async with live.running(s.Orders, s.Spend, processes=2):
            async with flowing(load):
                for _ in range(2):
                    with listening() as heard:
                        await heard.wait("batch.acked", 10)
                        pooler.kill()
                        await heard.wait("session.ill")
                        pooler.start()
                        await heard.wait("session.well")
                        await heard.wait("batch.acked", heard.counts["batch.acked"] + 5)
            await live.settled(s.Orders, s.Spend)
    await load.check()
    assert await live.failed_tries() == 0


async def test_a_postgresql_killed_behind_a_pooler_is_waited_for_and_nothing_is_lost(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    with behind(live):
        async with live.running(s.Orders, s.Spend, processes=2):
            async with flowing(load):
                await killed_twice(live)
            await live.settled(s.Orders, s.Spend)
    await load.check()
    assert await live.failed_tries() == 0
