"""`run --workers`: whatever ends, a worker or its supervisor, nobody is left over and nothing is left undone."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket

import pytest
from tests.integration.process.test_peers import environment
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import Child, projectionist
from tests.support.scrape import free_port, get, series
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import eventually

from projectionist.core.telemetry.instruments import WORKER_RESTARTS, scraped

pytestmark = pytest.mark.asyncio

APP = "tests.support.parking_shop:app"
TWO = ("run", APP, "--workers", "2")


async def pids(child: Child, many: int) -> list[int]:
    """The processes that were started, once there are so many."""

    async def started() -> list[int]:
        found = [int(pid) for pid in re.findall(r"worker \d is process (\d+)", child.err)]
        return found if len(found) >= many else []

    return await eventually(started)


async def stopped(child: Child) -> None:
    child.signal(signal.SIGTERM)
    ended = await child.ended()
    assert ended.code == 0, ended.err


async def test_a_worker_that_dies_in_a_batch_is_started_again_and_its_events_are_applied(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderNoted("kill"), "o1", 2)
    async with projectionist(*TWO, env=environment(live)) as child:
        await child.heard("workers.resting")
        for number in range(2, 12):
            await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
        await live.value_of("select count(*) = 11 from orders", True)
        await inspection.reaches(1, inspection.count, live, "parked", cause="failed")
        assert "was killed by SIGKILL; it is started again in" in child.err
        assert not child.has_ended
        await stopped(child)
    assert await live.value("select count(*) from spend") == 1


async def test_a_worker_that_cannot_be_started_is_tried_again_and_costs_the_others_nothing(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    async with projectionist(*TWO, env=environment(live)) as child:
        await child.heard("workers.begun")
        first, second = await pids(child, 2)
        before = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (3, before[1]))  # the machine has no room for it
        os.kill(first, signal.SIGKILL)
        await child.said("could not be started (Too many open files); it is started again in")
        os.kill(second, 0)
        assert not child.has_ended
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, before)
        assert second in await pids(child, 3)
        await inspection.reaches(4, inspection.count_running, live)
        await stopped(child)


async def test_workers_whose_supervisor_is_killed_settle_what_has_begun_and_end(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    async with projectionist(*TWO, env=environment(live)) as child:
        await child.heard("workers.begun")
        await inspection.reaches(4, inspection.count_running, live)
        child.signal(signal.SIGKILL)
        await inspection.reaches(0, inspection.count_running, live)
        await child.said("the supervisor of this worker is gone: stopping")


@pytest.mark.parametrize("point", ["workers.started", "workers.resting"])
async def test_a_stop_while_a_worker_is_started_or_waits_for_that_leaves_nobody(
    live: ConsumerHarness, point: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    async with projectionist(*TWO, env=environment(live), pause_at={point: 1}) as child:
        if point == "workers.resting":
            os.kill((await pids(child, 2))[0], signal.SIGKILL)
        await child.paused(point)
        child.signal(signal.SIGTERM)
        child.signal(signal.SIGCONT)
        ended = await child.ended()
        assert ended.code == 0, ended.err
        known = await pids(child, 1)
        assert len(known) <= 2
        for pid in known:  # who started it has waited for its end
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


async def test_what_no_worker_can_begin_with_ends_all_at_once_with_the_reason(live: ConsumerHarness) -> None:
    async with projectionist(*TWO, env=environment(live)) as child:  # nobody has migrated
        ended = await child.ended()
    assert ended.code == 1
    assert "Run `projectionist migrate`" in ended.err
    assert "error: no worker can begin: the last try of worker" in ended.err
    assert ended.err.count(" is process ") <= 4, "the first to fail may have been started again by then"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "tests.support.nowhere:app", "--workers", "2"), "there is no module tests.support.nowhere"),
        (("run", APP, "--workers", "0"), "--workers 0 is not a number from 1 to 64"),
    ],
)
async def test_what_the_supervisor_sees_by_itself_is_told_once_and_starts_no_worker(
    live: ConsumerHarness, words: tuple[str, ...], said: str
) -> None:
    async with projectionist(*words, env=environment(live)) as child:
        ended = await child.ended()
    assert ended.code in (1, 2)
    assert ended.err.count(said) == 1
    assert "is process" not in ended.err


async def test_one_address_answers_for_all_workers_and_they_listen_nowhere(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    port = free_port()
    env = environment(
        live,
        PROJECTIONIST_TELEMETRY__LISTEN=f"127.0.0.1:{port}",
        PROJECTIONIST_TELEMETRY__EXPORTER="prometheus",
        PROJECTIONIST_TELEMETRY__LOGS="json",
    )

    async def ready() -> bool:
        return (await get(port, "/ready")).status == 200

    async with projectionist(*TWO, env=env) as child:
        await child.heard("workers.begun")
        await eventually(ready)
        assert (await get(port, "/startup")).status == 200
        assert (await get(port, "/live")).status == 200
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.value_of("select count(*) = 1 from orders", True)

        async def shown() -> bool:
            text = (await get(port, "/metrics")).text
            ages = series(text, "projectionist_loop_age_seconds")
            return {dict(key).get("projectionist_worker") for key in ages} == {"1", "2", None}

        await eventually(shown)
        first, _ = [int(pid) for pid in re.findall(r"worker \d is process (\d+)", child.err)]
        os.kill(first, signal.SIGKILL)
        await child.heard("workers.resting")

        async def counted() -> bool:
            text = (await get(port, "/metrics")).text
            restarts = series(text, scraped(WORKER_RESTARTS))
            return restarts.get((("projectionist_worker", "1"),)) == 1

        await eventually(counted)
        await eventually(ready)
        await stopped(child)
        assert '"worker":2' in child.err


async def test_an_address_that_somebody_has_is_refused_before_a_worker_is_started(
    live: ConsumerHarness,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with projectionist(*TWO, "--listen", f"127.0.0.1:{port}", env=environment(live)) as child:
            ended = await child.ended()
    assert ended.code == 1
    assert f"error: [telemetry] listen: cannot listen at 127.0.0.1:{port}" in ended.err
    assert "is process" not in ended.err


async def test_workers_that_newer_code_has_taken_over_from_are_not_started_for_ever(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    only = ("--only", "Orders")
    async with projectionist(*TWO, *only, env=environment(live)) as old:
        await old.heard("workers.begun")
        await inspection.reaches(2, inspection.count_running, live)
        async with projectionist("run", APP, *only, env=environment(live, HELD_CODE="new")) as new:
            await new.heard("worker.running")
            for number in range(20):  # an old worker finds out with its next batch
                await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
            await live.value_of("select count(*) = 20 from orders", True)
            ended = await old.ended()
    assert ended.code == 1
    assert "--allow-older-code" in ended.err
    assert "error: no worker can begin" in ended.err
