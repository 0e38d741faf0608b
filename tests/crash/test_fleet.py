"""Processes of several consumers: what ends one of them leaves the others at their work."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.crash.test_run import stop
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.fleet_app import APP, raised, release
from tests.support.process import projectionist
from tests.support.scrape import free_port, get
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, mended, shop
from tests.support.waiting import eventually

from projectionist.ops.inspect.project_status import look
from projectionist.projections import definition

pytestmark = pytest.mark.asyncio


async def migrated(live: ConsumerHarness) -> Any:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend, s.Mailer)
    return s


async def test_newer_code_of_one_consumer_ends_that_one_alone_in_older_processes(
    live: ConsumerHarness,
) -> None:
    s = await migrated(live)
    async with (
        projectionist("run", APP, env=release(live, "first")) as old,
        projectionist("run", APP, env=release(live, "first")) as older,
    ):
        for child in (old, older):
            await child.heard("worker.running", 3)
        assert len(set(await inspection.rows(live, "runners", "instance"))) == 2
        async with projectionist("run", APP, env=release(live, "second")) as new:
            await new.heard("worker.running", 3)
            for number in range(20):
                await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
            await live.settled(s.Orders, s.Spend, s.Mailer)
            await old.heard("worker.ended")
            await older.heard("worker.ended")
            await stop(older)
            await stop(new)

        for number in range(20):
            await live.publish(OrderPaid(), f"o{number}", 2)
        await live.settled(s.Spend, s.Mailer)
        assert await live.value("select count(*) from orders where status = 'paid'") == 0
        await old.heard("problems.written")
        status = await look(live.settings)
        assert [(one.consumer, one.state, one.pid) for one in status.setbacks] == [
            ("Orders", "ended", old.pid)
        ]
        assert not status.well
        assert old.err.count("newer code has taken over consumer 'Orders'") == 1
        await stop(old)


async def test_a_release_goes_back_where_told_to_and_the_later_release_ends_its_consumer(
    live: ConsumerHarness,
) -> None:
    s = await migrated(live)
    for name in ("first", "second"):
        async with projectionist("run", APP, env=release(live, name)) as child:
            await child.heard("worker.running", 3)
            await stop(child)

    async with projectionist("run", APP, env=release(live, "second")) as later:
        await later.heard("worker.running", 3)
        async with projectionist("run", APP, env=release(live, "first")) as refused:
            await refused.heard("worker.running", 2)
            await refused.said("--allow-older-code")
            await stop(refused)
        async with projectionist("run", APP, "--allow-older-code", env=release(live, "first")) as back:
            await back.heard("worker.running", 3)
            for number in range(20):
                await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
            await live.settled(s.Orders, s.Spend, s.Mailer)
            await later.heard("worker.ended")
            await stop(later)
            await stop(back)

    assert await inspection.value(live, "views", "code", name="Orders") == definition(s.Orders).code
    assert definition(s.Orders).code != definition(mended(live.stream)).code


async def test_a_process_of_which_newer_code_has_every_consumer_ends_and_names_them(
    live: ConsumerHarness,
) -> None:
    await migrated(live)
    async with projectionist("run", APP, "--only", "Orders", "Spend", env=release(live, "first")) as old:
        await old.heard("worker.running", 2)
        await live.fetch("update {s}.views set code = 'newer'")
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        ended = await old.ended()

    assert ended.code == 1
    assert "no consumer is left to run. Orders: newer code" in ended.err
    assert "Spend: newer code" in ended.err
    assert "Traceback" not in ended.err
    assert await inspection.count_running(live) == 0


async def test_a_consumer_unable_to_begin_is_told_once_and_begins_later_while_others_work(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Mailer)
    async with projectionist("run", APP, env=release(live, "first")) as child:
        await child.heard("worker.running", 2)
        await child.heard("worker.stuck", 2)
        await child.heard("problems.written")
        (told,) = (await look(live.settings)).setbacks
        assert (told.consumer, told.state, told.pid) == ("Spend", "retried", child.pid)
        assert "projectionist migrate" in told.remedy
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.settled(s.Orders, s.Mailer)
        assert child.err.count("consumer 'Spend' is not in the database yet") == 1

        await live.migrate(s.Spend)
        await child.heard("worker.running", 3)
        await child.heard("problems.written", 2)
        assert (await look(live.settings)).setbacks == []
        await live.settled(s.Spend)
        await stop(child)

    assert await live.rows("spend") == [("ann", 1, 1)]


async def test_a_process_none_of_whose_consumers_can_begin_ends_and_says_why(live: ConsumerHarness) -> None:
    async with projectionist("run", APP, env=release(live, "first")) as child:
        ended = await child.ended()

    assert ended.code == 1
    assert "consumer 'Orders' is not in the database yet" in ended.err
    assert "projectionist migrate" in ended.err
    assert "Traceback" not in ended.err


async def test_an_unbuildable_revision_waits_for_better_code_and_stops_no_other_consumer(
    live: ConsumerHarness,
) -> None:
    s = await migrated(live)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderNoted("bad"), "o1", 2)
    await live.settle(s.Orders, s.Spend, s.Mailer)
    await live.migrate(raised(live.stream))

    async with (
        projectionist("run", APP, env=release(live, "first")) as old,
        projectionist("run", APP, env=release(live, "raised")) as new,
    ):
        await old.heard("worker.running", 3)
        await new.heard("worker.stuck", 2)
        await new.heard("worker.running", 2)
        old.signal(signal.SIGTERM)
        await old.ended()
        await live.publish(OrderPlaced("bob", 1), "o2", 1)
        await live.settled(s.Spend, s.Mailer)
        assert new.err.count("the handlers of this code fail") == 1
        await new.heard("problems.written")
        (told,) = (await look(live.settings)).setbacks
        assert (told.consumer, told.state, told.pid) == ("Orders", "retried", new.pid)
        assert "the handlers of this code fail" in told.reason
        await stop(new)

    assert await live.rows("spend") == [("ann", 1, 1), ("bob", 1, 1)]


async def test_a_chore_that_fails_is_told_once_tried_again_and_ends_nothing(live: ConsumerHarness) -> None:
    s = await migrated(live)
    await live.fetch("alter table {s}.incidents rename to gone")

    async with projectionist("run", APP, env=release(live, "first")) as child:
        await child.heard("worker.running", 3)
        await child.heard("setbacks.noted", 4)
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await inspection.reaches(3, inspection.count_inbox, live)
        assert child.err.count("Orders: closing incidents that are settled: UndefinedTableError") == 1
        child.signal(signal.SIGTERM)
        assert (await child.ended()).code == 0
    await live.fetch("alter table {s}.gone rename to incidents")
    assert await live.unaccounted(s.Orders) == []


async def test_health_names_the_consumer_that_ended_and_not_the_others(live: ConsumerHarness) -> None:
    """What an orchestrator asks for is not ready; what serves goes on."""
    await migrated(live)
    port = free_port()
    env = release(live, "first", telemetry__listen=f"127.0.0.1:{port}")
    async with projectionist("run", APP, env=env) as child:
        await child.heard("worker.running", 3)
        await live.fetch("update {s}.views set code = 'newer' where name = 'Orders'")
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await child.heard("worker.ended")

        async def told() -> bool:
            answer = await get(port, "/ready")
            assert answer.status == 503
            assert "Spend" not in answer.text
            return "Orders: ended in this process: newer code has taken over" in answer.text

        await eventually(told)
        await stop(child)
