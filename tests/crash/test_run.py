"""`projectionist run` as a real process, ended wherever it can be ended: what is there after is what would be."""

from __future__ import annotations

import signal
from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import Child, projectionist
from tests.support.rebuilding import RebuildHarness
from tests.support.reference_fold import decisions, facts, reckon
from tests.support.several_rows import Cancelled, Placed, Renamed, StockMoved, several
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import APP, SEVERAL_APP, environment

from projectionist.runner.database.barrier import barrier_key

pytestmark = pytest.mark.asyncio

POINTS = ["entered", "claimed", "judged", "folded", "written", "committed"]


async def scene(live: ConsumerHarness) -> Any:
    """A parked run that can be drained, a poison, a repeat, and plain orders; nothing of it acked but the run."""
    s = await begin(live)
    await go_on(live)
    return s


async def begin(live: ConsumerHarness) -> Any:
    """The parked run."""
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders, s.Spend)
    for version in (6, 5, 4, 3):
        await live.publish(OrderPaid() if version == 6 else OrderNoted(str(version)), "o1", version)
    await live.settle(s.Orders, s.Spend)
    return s


async def go_on(live: ConsumerHarness) -> None:
    """All the rest."""
    history = [
        ("o2", [OrderPlaced("bob", 2), OrderNoted("bad"), OrderPaid()]),
        ("o3", [OrderPlaced("ann", 3), OrderPaid()]),
        ("o1", [OrderPlaced("ann", 1), OrderNoted("2")]),
    ]
    for aggregate, events in history:
        for version, event in enumerate(events, 1):
            await live.publish(event, aggregate, version, id=f"{aggregate}:{version}")
    await live.publish(OrderPaid(), "o3", 2, id="o3:2")


async def assert_as_if_nothing_had_happened(live: ConsumerHarness, s: Any) -> None:
    """Go on in a process that is not ended, and compare with the reckoning."""
    policy = msgspec.structs.replace(live.policy, ack_wait_s=1)
    await live.settle(s.Orders, s.Spend, policy=policy)
    stream = await facts(live)
    expected = reckon(stream, await decisions(live, "Orders"), {"bad"})
    assert await live.rows("orders") == expected.orders
    assert await live.rows("spend") == reckon(stream, await decisions(live, "Spend")).spend
    assert sorted(await inspection.rows(live, "intents", "source", "id")) == sorted(expected.receipts)
    assert await live.head(s.Orders, "order/o1") == (6, "clear", 0)
    assert await live.head(s.Orders, "order/o2") == (1, "waiting", 2)
    assert await inspection.rows(live, "parked", "attempts", cause="failed") == [(1,)]
    assert await live.unaccounted(s.Orders) == []
    assert await live.unaccounted(s.Spend) == []


@pytest.mark.parametrize("point", [*(f"batch.{point}" for point in POINTS), "batch.acked"])
async def test_a_process_killed_in_its_first_batch_leaves_nothing_half_done(
    live: ConsumerHarness, point: str
) -> None:
    s = await scene(live)
    async with projectionist("run", APP, env=environment(live, poison="bad"), kill_at={point: 1}) as child:
        assert (await child.ended()).code == -signal.SIGKILL
    await live.assert_sound()

    await assert_as_if_nothing_had_happened(live, s)


@pytest.mark.parametrize("point", [*(f"batch.{point}" for point in POINTS), "due.settled"])
async def test_a_process_killed_in_the_middle_of_a_drain_leaves_nothing_half_done(
    live: ConsumerHarness, point: str
) -> None:
    s = await scene(live)
    env = environment(live, poison="bad", consumer_defaults__drain_batch_size="1")
    many = {point: 1 if point == "due.settled" else 2}
    async with projectionist("run", APP, "--only", "Orders", env=env, kill_at=many) as child:
        assert (await child.ended()).code == -signal.SIGKILL
    await live.assert_sound()

    await assert_as_if_nothing_had_happened(live, s)


async def test_of_two_processes_one_is_killed_and_the_other_finishes_its_work(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    env = environment(live, batch__max_rows="50")
    events = [(f"o{a}", v) for v in range(1, 21) for a in range(100)]
    await live.publish_all(
        (OrderPlaced("ann", 1) if v == 1 else OrderNoted(str(v)), a, v, f"{a}:{v}") for a, v in events
    )
    async with projectionist("run", APP, env=env, pause_at={"batch.written": 2}) as doomed:
        await doomed.paused("batch.written")  # or the other would have done all the work before it
        async with projectionist("run", APP, env=env) as other:
            doomed.signal(signal.SIGKILL)
            assert (await doomed.ended()).code == -signal.SIGKILL
            await live.settled(s.Orders, s.Spend)
            await stop(other)

    expected = reckon(await facts(live), await decisions(live, "Orders"))
    assert await live.rows("orders") == expected.orders
    assert await live.rows("spend") == expected.spend == [("ann", 100, 100)]
    assert await live.unaccounted(s.Orders) == []


async def stop(child: Child) -> None:
    """Ask it to stop, and see that it does so in order."""
    child.signal(signal.SIGTERM)
    ended = await child.ended()
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err


async def test_a_process_asked_to_stop_in_mid_batch_finishes_it_acks_it_and_leaves(
    live: ConsumerHarness,
) -> None:
    s = await scene(live)
    env = environment(live, poison="bad", consumer_defaults__ack_wait_s="30")
    async with projectionist("run", APP, "--only", "Orders", env=env, pause_at={"batch.judged": 1}) as child:
        await child.paused("batch.judged")
        child.signal(signal.SIGTERM)
        child.signal(signal.SIGCONT)
        ended = await child.ended()

    assert ended.code == 0, ended.err
    durable = await inspection.durable_name(live, "Orders")
    info = await live.nats.jetstream().consumer_info(live.stream.name, durable)
    assert (info.num_pending, info.num_ack_pending) == (0, 0)
    assert await live.fetch(
        "select state, stopped is not null from {s}.runners order by number desc limit 1"
    ) == [("stopped", True)]
    assert await live.unaccounted(s.Orders) == []


async def test_an_idle_process_stops_at_once(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    env = environment(live, run__shutdown_s="600")  # so that its end does not come of the deadline
    async with projectionist("run", APP, env=env) as child:
        await child.heard("worker.running", 2)
        child.signal(signal.SIGINT)
        ended = await child.ended()

    assert ended.code == 0
    assert "Traceback" not in ended.err
    assert await inspection.count_running(live) == 0


@pytest.mark.parametrize("how", ["a second signal", "the deadline"])
async def test_a_batch_that_cannot_finish_is_rolled_back_and_delivered_again(
    live: ConsumerHarness, how: str
) -> None:
    s = await begin(live)
    number = await inspection.consumer_number(live, "Orders")
    shutdown = "600" if how == "a second signal" else "0.5"
    env = environment(live, poison="bad", run__shutdown_s=shutdown)
    async with projectionist("run", APP, "--only", "Orders", env=env) as child:
        await child.heard("heart.beat")
        async with live.pool.acquire() as taker, taker.transaction():
            await taker.execute("select pg_advisory_xact_lock($1)", barrier_key("projectionist", number))
            await go_on(live)
            await live.blocked()
            child.signal(signal.SIGTERM)
            if how == "a second signal":
                await child.said("stopping; what has begun is settled")
                child.signal(signal.SIGTERM)
            ended = await child.ended()

    assert ended.code == 0
    assert "stopping at once" in ended.err
    assert await inspection.count(live, "inbox", consumer=number) == 4
    await assert_as_if_nothing_had_happened(live, s)


async def test_a_process_waits_for_its_stream_says_so_once_and_begins_when_it_is_there(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    js = live.nats.jetstream()
    await js.delete_stream(live.stream.name)
    async with projectionist("run", APP, "--only", "Orders", env=environment(live)) as child:
        await child.heard("worker.waiting", 3)
        assert child.err.count(live.stream.name) == 1
        await js.add_stream(name=live.stream.name, subjects=[live.stream.subjects])
        await child.heard("worker.running")
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.settled(s.Orders)
        await stop(child)

    assert len(await live.rows("orders")) == 1


async def test_a_process_whose_connection_is_lost_at_its_start_waits_and_begins_then(
    live: ConsumerHarness,
) -> None:
    s = await scene(live)
    number = await inspection.consumer_number(live, "Orders")
    env = environment(live, poison="bad")
    async with projectionist("run", APP, "--only", "Orders", env=env, pause_at={"source.open": 1}) as child:
        await child.paused("source.open")
        async with live.pool.acquire() as taker, taker.transaction():
            await taker.execute("select pg_advisory_xact_lock($1)", barrier_key("projectionist", number))
            child.signal(signal.SIGCONT)
            await live.blocked()
            await live.fetch(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where wait_event_type = 'Lock' and datname = current_database()"
            )
            await child.heard("worker.waiting")
        await child.heard("worker.running")
        await live.settled(s.Orders)
        await stop(child)

    await assert_as_if_nothing_had_happened(live, s)


async def test_a_process_of_older_code_ends_with_one_line_that_says_what_to_do(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await live.settle(s.Orders)
    async with live.pool.acquire() as connection:
        await connection.execute(
            "insert into projectionist.code_fingerprints select number, code from projectionist.views"
            " on conflict do nothing; update projectionist.views set code = 'newer'"
        )
    async with projectionist("run", APP, "--only", "Orders", env=environment(live)) as child:
        ended = await child.ended()

    assert ended.code == 1
    assert "newer code" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("point", ["batch.folded", "batch.written", "batch.committed"])
async def test_of_two_processes_with_rows_of_several_one_is_killed_and_nothing_is_lost(
    live: ConsumerHarness, point: str
) -> None:
    """Orders come with their lines, and stock moves between two warehouses, which both processes lock."""
    s = several(live.stream)
    await live.migrate(s.Lines, s.Stock)
    env = environment(live, batch__max_rows="20")
    order = [Placed(("a", "b"), (1, 2)), StockMoved("a", "x", "y", 1), Renamed("b", "c"), Cancelled()]
    events = [(event, f"o{n}", v) for v, event in enumerate(order, 1) for n in range(40) if v < 4 or n % 2]
    await live.publish_all((event, name, version, f"{name}:{version}") for event, name, version in events)
    async with projectionist("run", SEVERAL_APP, env=env, pause_at={point: 2}) as doomed:
        await doomed.paused(point)  # or the other would have done all the work before it
        async with projectionist("run", SEVERAL_APP, env=env) as other:
            doomed.signal(signal.SIGKILL)
            assert (await doomed.ended()).code == -signal.SIGKILL
            await live.settled(s.Lines, s.Stock)
            await stop(other)

    assert sorted(await live.rows("lines")) == sorted(
        row for n in range(0, 40, 2) for row in ((f"o{n}", 0, "a", 1), (f"o{n}", 1, "c", 2))
    )
    assert sorted(await live.rows("stock")) == [("x", "a", -40, 40), ("y", "a", 40, 40)]
    assert await inspection.count_intents(live) == 120
    assert len(set(await inspection.rows(live, "intents", "key"))) == 120
    for cls in (s.Lines, s.Stock):
        assert await live.unaccounted(cls) == []
        assert (await RebuildHarness(live).verify(cls)).drifted == 0
