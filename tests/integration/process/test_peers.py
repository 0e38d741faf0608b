"""Processes that are killed, stopped or asleep while others of the same consumers work on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import asyncpg
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import Load, tuned
from tests.support.process import Child, projectionist
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.core.postgres import connections
from projectionist.runner.database.barrier import barrier_key
from projectionist.runner.database.dead_sessions import POOL, DeadSessions
from projectionist.runner.process.database_access import DatabaseAccess
from projectionist.runner.process.run import MOST_CONNECTIONS
from projectionist.runner.stream_guard import observe

pytestmark = pytest.mark.asyncio

OURS = {"application_name": "projectionist Orders"}
LOCK_S = 5.0
"""While a lock is waited for it is looked at who holds it, which on a busy machine takes more than a moment."""


def environment(harness: ConsumerHarness, **more: str) -> dict[str, str]:
    """What a process of its own needs to know."""
    return {
        "PROJECTIONIST_POSTGRES__URL": harness.database,
        "PROJECTIONIST_POSTGRES__LOCK_S": str(LOCK_S),
        "PROJECTIONIST_NATS__URL": harness.servers.nats_url,
        "PROJECTIONIST_RUN__HEARTBEAT_S": "0.3",
        "PROJECTIONIST_BATCH__MAX_ROWS": "5",  # what a sleeper has ordered the broker goes on giving it
        "PROJECTIONIST_CONSUMER_DEFAULTS__ACK_WAIT_S": "1",
        "HELD_STREAM": harness.stream.name,
        **more,
    }


def running(
    harness: ConsumerHarness,
    *only: str,
    pause_at: Mapping[str, int] | None = None,
    code: str = "",
    **more: str,
) -> AbstractAsyncContextManager[Child]:
    """The shop in a process of its own."""
    names = ("--only", *only) if only else ()
    return projectionist(
        *("run", "tests.support.parking_shop:app", *names),
        env=environment(harness, HELD_CODE=code, **more),
        pause_at=pause_at,
    )


def quick(harness: ConsumerHarness) -> None:
    tuned(harness, postgres={"lock_s": LOCK_S}, run={"heartbeat_s": 0.3}, policy={"ack_wait_s": 1.0}, rows=5)


def is_stopped(child: Child) -> bool:
    return Path(f"/proc/{child.pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "T"


async def stopped(child: Child) -> None:
    async def now() -> bool:
        return is_stopped(child)

    await eventually(now)


@pytest.mark.parametrize("moment", ["batch.claimed", "batch.written", "batch.committed"])
async def test_who_sleeps_in_a_batch_stops_nobody_and_awake_again_neither_commits_nor_acks(
    live: ConsumerHarness, moment: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    quick(live)
    await load.more(20)
    async with running(live, pause_at={moment: 1}) as sleeper:
        await sleeper.heard(moment)
        await stopped(sleeper)
        async with live.running(s.Orders, s.Spend):
            await load.more(20)
            await live.settled(s.Orders, s.Spend)
            await load.check()
            before = await ledger(live)
            sleeper.signal(signal.SIGCONT)
            await sleeper.heard("batch.acked")
            assert await ledger(live) == before
            await load.more(10)
            await live.settled(s.Orders, s.Spend)
        sleeper.signal(signal.SIGTERM)
        assert (await sleeper.ended()).code == 0

    await load.check()


async def held_elsewhere(harness: ConsumerHarness, session: asyncpg.Connection[Any]) -> None:
    """Have a session be that of another process of the consumer."""
    await harness.fetch(
        "insert into {s}.runners (consumer, instance, host, pid, backends)"
        " select number, gen_random_uuid(), 'elsewhere', 7, array[$1::int] from {s}.consumers",
        session.get_server_pid(),
    )


async def ledger(harness: ConsumerHarness) -> list[list[tuple[object, ...]]]:
    """What a batch leaves behind, but for counts of what came again."""
    tables = ("orders", "spend", "{s}.inbox", "{s}.positions", "{s}.intents", "{s}.duplicates")
    return [await harness.fetch(f"select * from {table} order by 1, 2, 3") for table in tables]


async def test_a_session_that_hangs_in_the_middle_of_an_answer_is_ended(live: ConsumerHarness) -> None:
    """No timeout of PostgreSQL ends a backend that waits for its client to read."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    quick(live)
    frozen = await asyncpg.connect(live.database, server_settings=OURS)
    async with live.running(s.Orders):
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.settled(s.Orders)
        await frozen.execute("begin")
        await frozen.execute(f"update {SCHEMA}.positions set version = version")
        await held_elsewhere(live, frozen)
        frozen._transport.pause_reading()  # type: ignore[attr-defined]  # the stubs leave it out
        endless = asyncio.create_task(
            frozen.fetch("select repeat('x', 1000) from generate_series(1, 300000)")
        )
        try:
            with listening() as heard:
                await live.publish(OrderPlaced("ann", 1), "o1", 2)
                await heard.wait("peers.ended")
                await live.settled(s.Orders)
        finally:
            frozen.terminate()
            await asyncio.gather(endless, return_exceptions=True)

    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)


async def test_an_ended_session_is_told_of_though_nobody_waits_for_the_answer_any_more(
    live: ConsumerHarness,
) -> None:
    await live.migrate(shop(live.stream).Orders)
    frozen = await asyncpg.connect(live.database, server_settings=OURS)
    waiting = await asyncpg.connect(live.database, server_settings=OURS)
    through = asyncio.Event()

    class Late:
        """Gives an answer once it is of no use any more."""

        async def fetch(self, query: str, *args: object) -> list[asyncpg.Record]:
            rows = await live.pool.fetch(query, *args)
            if rows:
                await through.wait()
                await anyio.sleep(0.01)
            return rows

    @asynccontextmanager
    async def lend() -> AsyncIterator[Any]:
        yield Late()

    await held_elsewhere(live, frozen)
    await frozen.execute(f"begin; update {SCHEMA}.consumers set epoch = epoch")
    with listening() as heard:
        async with DeadSessions(lend, SCHEMA, 0.001).terminating_blockers(waiting.get_server_pid()):
            await waiting.execute(f"update {SCHEMA}.consumers set epoch = epoch")
            through.set()
    assert heard.counts["peers.ended"] == 1
    for one in (frozen, waiting):
        one.terminate()


async def test_a_session_that_consumers_share_is_ended_once_all_of_them_are_silent(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    silent, instance = DeadSessions(live.pool.acquire, SCHEMA, HANG_S), uuid4()
    shared = await asyncpg.connect(live.database, server_settings={"application_name": f"{POOL} {instance}"})
    waiting = await asyncpg.connect(live.database, server_settings=OURS)
    await live.fetch(
        "insert into {s}.runners (consumer, instance, host, pid) select number, $1, 'elsewhere', 7 from {s}.consumers",
        instance,
    )
    older = "update {s}.runners set beat = beat - $1 * interval '1 second' where $2 or number = 1"
    await live.fetch(older, 10 * HANG_S, False)
    update = f"update {SCHEMA}.consumers set epoch = epoch"
    await shared.execute(f"begin; {update}")
    with listening() as heard:
        async with silent.terminating_blockers(waiting.get_server_pid()):
            with pytest.raises(asyncpg.LockNotAvailableError):
                await waiting.execute(f"set lock_timeout = '1s'; {update}")
            assert not heard.counts.get("peers.ended"), "one consumer of it beats"
            await live.fetch(older, 10 * HANG_S, True)
            await waiting.execute(f"set lock_timeout = '{HANG_S}s'; {update}")
        assert heard.counts["peers.ended"] == 1
    for one in (shared, waiting):
        one.terminate()


async def test_a_session_of_a_process_with_a_heartbeat_is_left_alone(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    quick(live)
    # So the heartbeat that it has given is not old before the test is over.
    tuned(live, postgres={"lock_s": 0.5}, run={"heartbeat_s": HANG_S})
    slow = await asyncpg.connect(live.database, server_settings=OURS)
    async with live.running(s.Orders):
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.settled(s.Orders)
        await held_elsewhere(live, slow)
        with listening() as heard:
            async with slow.transaction():
                await slow.execute(f"update {SCHEMA}.positions set version = version")
                await live.publish(OrderPlaced("ann", 1), "o1", 2)
                await heard.wait("batch.outage", 3)
            await live.settled(s.Orders)
            assert not heard.counts["peers.ended"]
    await slow.close()


@pytest.mark.parametrize("moment", ["batch.written", "batch.acked"])
async def test_newer_code_takes_over_from_a_sleeper_who_commits_nothing_afterwards(
    live: ConsumerHarness, moment: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    quick(live)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    async with running(live, "Orders", pause_at={moment: 1}) as sleeper:
        await sleeper.heard(moment)
        await stopped(sleeper)
        async with running(live, code="new") as newer:
            await newer.heard("worker.running")
            await live.publish(OrderPlaced("ann", 2), "o2", 1)
            await eventually(lambda: has_row(live, "o2"))
            sleeper.signal(signal.SIGCONT)
            ended = await sleeper.ended()
            await live.settled(s.Orders)
            newer.signal(signal.SIGTERM)
            await newer.ended()

    assert ended.code == 1
    assert "newer code has taken over" in ended.err
    written = "placed by newer code" if moment == "batch.written" else "placed"
    assert [row[1] for row in await live.rows("orders")] == [written, "placed by newer code"]
    assert await live.unaccounted(s.Orders) == []


async def test_what_a_sleeper_holds_beside_its_batches_is_taken_from_it_too(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    quick(live)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    async with running(live, "Orders", pause_at={"floor.written": 1}) as sleeper:
        await sleeper.heard("floor.written")
        await stopped(sleeper)
        async with running(live, code="new") as newer:
            await newer.heard("worker.running")
            assert newer.announced["peers.ended"] == 1, newer.err
            await live.publish(OrderPlaced("ann", 2), "o2", 1)
            await eventually(lambda: has_row(live, "o2"))


async def has_row(harness: ConsumerHarness, key: str) -> bool:
    return key in [row[0] for row in await harness.rows("orders")]


async def test_two_processes_of_one_name_share_the_work_and_one_finishes_the_others(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    quick(live)
    async with running(live) as first, running(live) as second:
        for child in (first, second):
            await child.heard("worker.running", 2)
        await load.more(60)
        await first.heard("batch.committed", 2)
        first.signal(signal.SIGKILL)
        await load.more(20)
        await live.settled(s.Orders, s.Spend)
        second.signal(signal.SIGTERM)
        await second.ended()

    await load.check()


async def test_a_start_beside_others_goes_back_to_no_floor_before_they_have_had_their_say(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    tuned(live, run={"heartbeat_s": 1})
    with listening() as heard:
        async with live.running(s.Orders, s.Spend):
            await heard.wait("stream_guard.recorded", 2)
            await load.more(20)
            await live.settled(s.Orders, s.Spend)
            async with live.running(s.Orders, s.Spend):
                await heard.wait("stream_guard.recorded", heard.counts["stream_guard.recorded"] + 4)

    assert not heard.counts["stream_guard.moved"]
    assert await inspection.count(live, "audit", action="rewind") == 0
    await load.check()


async def test_a_start_after_a_kill_goes_back_to_the_floor_once_the_dead_are_silent(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    quick(live)
    async with running(live) as killed:
        await killed.heard("worker.running", 2)
        await load.more(30)
        await live.settled(s.Orders, s.Spend)
        killed.signal(signal.SIGKILL)
        await killed.ended()
    await live.fetch("update {s}.floors set floor = 10, floor_hash = null")

    with listening() as heard:
        async with live.running(s.Orders, s.Spend):
            await heard.wait("stream_guard.moved", 2)
            await live.settled(s.Orders, s.Spend)

    await load.check()


async def test_a_process_hearing_the_broker_late_takes_no_floor_back_and_no_peer_for_older(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    heard_by, go_on, ask = asyncio.Event(), asyncio.Event(), observe.remembered
    late: list[Any] = []

    async def remembered(client: Any, *rest: Any) -> Any:
        heard = await ask(client, *rest)
        if late == [client]:  # once: between the broker's word and its being written down
            late.append(None)
            heard_by.set()
            await go_on.wait()
        return heard

    floor = "select max(floor) from {s}.floors"
    with listening() as heard:
        async with live.running(s.Orders, processes=2) as workers:
            await heard.wait("stream_guard.recorded", 4)
            monkeypatch.setattr(observe, "remembered", remembered)
            late.append(workers[0]._client)
            await heard_by.wait()
            for number in range(20):
                await live.publish(OrderPlaced("ann", number), f"o{number}", 1)
            await live.value_of(floor, 20)
            go_on.set()
            await heard.wait("stream_guard.recorded", heard.counts["stream_guard.recorded"] + 6)
            assert await live.value(floor) == 20

    assert not heard.counts["worker.rejoins"]


async def test_heartbeats_go_on_and_a_frozen_peer_is_ended_while_five_consumers_join(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    numbers = range(901, 906)
    frozen = await asyncpg.connect(live.database, server_settings=OURS)
    for number in numbers:
        await frozen.execute("select pg_advisory_lock_shared($1)", barrier_key(SCHEMA, number))
    tuned(live, postgres={"lock_s": HANG_S, "statement_s": HANG_S})  # or who waits gives up before all do
    pool = await connections.pool(live.settings.postgres, application_name="office", most=MOST_CONNECTIONS)
    access = DatabaseAccess(pool, SCHEMA, heartbeat_s=0.2)

    async def join(number: int) -> None:
        async with access.alone(number):
            pass

    joining = [asyncio.create_task(join(number)) for number in numbers]
    waiting = "select count(*)::int from pg_locks where not granted and locktype = 'advisory'"
    await live.value_of(waiting, MOST_CONNECTIONS - 1)
    async with asyncio.timeout(HANG_S):
        for _ in range(20):
            await access.beat(0, "running", 0, None, None, None, None)
    assert not any(one.done() for one in joining)
    await live.fetch(
        "insert into {s}.runners (consumer, instance, host, pid, backends)"
        " values (901, gen_random_uuid(), 'elsewhere', 7, array[$1::int])",
        frozen.get_server_pid(),
    )
    await asyncio.gather(*joining)

    async def is_ended() -> bool:
        return frozen.is_closed()

    await eventually(is_ended)
    pool.terminate()
