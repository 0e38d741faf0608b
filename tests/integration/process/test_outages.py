"""Servers that go away, refuse or fall silent while consumers work: waited out, told once, and nobody's fault."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from urllib.parse import urlsplit

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import Gateway, gateway
from tests.support.load import Load, flowing, killed_twice, tuned
from tests.support.process import projectionist, run_projectionist
from tests.support.shop import shop
from tests.support.waiting import Heard, eventually, listening, silent_for

from projectionist.core.nats.connections import PING_S
from projectionist.projections import definition
from projectionist.runner.process.run import MOST_CONNECTIONS

pytestmark = pytest.mark.asyncio


async def test_a_postgresql_killed_under_load_is_waited_for_and_nothing_is_lost_or_doubled(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    async with live.running(s.Orders, s.Spend, processes=2):
        async with flowing(load):
            await killed_twice(live)
        await live.settled(s.Orders, s.Spend)

    await load.check()
    assert await live.failed_tries() == 0


async def test_tries_and_lines_are_bounded_while_postgresql_is_down_and_the_backlog_drains(
    live: ConsumerHarness, told: list[str]
) -> None:
    seconds = float(os.environ.get("SOAK_S", "10"))
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    async with gateway(live.database) as gate:
        tuned(live, url=gate.url)
        async with live.running(s.Orders, s.Spend), flowing(load):
            with listening() as heard:
                await heard.wait("batch.acked", 10)
                gate.refusing = True
                attempts, lines = gate.attempts, len(told)
                gate.cut()
                await heard.wait("postgres.reach.ill")
                begun = time.monotonic()
                await silent_for(heard, "batch.acked", seconds)
                tried, said = gate.attempts - attempts, told[lines:]
                elapsed = time.monotonic() - begun
                gate.refusing = False
                await heard.wait("postgres.reach.well")
        async with live.running(s.Orders, s.Spend):
            await live.settled(s.Orders, s.Spend)

    assert tried <= elapsed + 2
    assert len(said) == 1, said
    assert len([line for line in told if "PostgreSQL" in line]) == 2
    await load.check()
    assert await live.failed_tries() == 0


async def test_a_commit_whose_answer_is_lost_is_read_and_not_guessed(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    async with gateway(live.database) as gate:
        tuned(live, url=gate.url, rows=5)
        async with live.running(s.Orders, s.Spend):
            await load.more(5)
            await live.settled(s.Orders, s.Spend)
            gate.losing = 10
            await load.more(100)
            await eventually(lambda: all_lost(gate, 10))
            await live.settled(s.Orders, s.Spend)

    await load.check()
    known = await inspection.count_outcomes(live, "redelivered")
    assert known, "the batch that was tried again found its own rows"
    assert await inspection.count_duplicates(live) == 0


async def test_a_connection_that_falls_silent_is_given_up_in_time(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    async with gateway(live.database) as gate:
        tuned(live, url=gate.url, postgres={"statement_s": 0.5, "lock_s": 0.5})
        async with live.running(s.Orders, s.Spend):
            with listening() as heard:
                await load.more(5)
                await live.settled(s.Orders, s.Spend)
                gate.stall()
                await load.more(100)
                gate.abandon()
                await heard.wait("session.ill")
                await heard.wait("session.well")
                await live.settled(s.Orders, s.Spend)

    await load.check()


async def test_a_postgresql_that_takes_no_writes_is_tried_once_a_second_and_told_once(
    live: ConsumerHarness, told: list[str]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    name = live.database.rpartition("/")[2].partition("?")[0]
    async with gateway(live.database) as gate:
        tuned(live, url=gate.url)
        async with live.running(s.Orders, s.Spend):
            with listening() as heard:
                await load.more(5)
                await live.settled(s.Orders, s.Spend)
                await live.pool.execute(f"alter database {name} set default_transaction_read_only = on")
                gate.cut()
                await load.more(50)
                await heard.wait("postgres.use.ill")
                before = gate.attempts
                begun = time.monotonic()
                await asyncio.sleep(3)
                # Connections that were cut off are opened again as they are needed, which succeeds.
                assert gate.attempts - before <= time.monotonic() - begun + 2 + MOST_CONNECTIONS
                async with live.pool.acquire() as connection:
                    await connection.execute("set default_transaction_read_only = off")
                    await connection.execute(f"alter database {name} reset default_transaction_read_only")
                await heard.wait("postgres.use.well")
                await live.settled(s.Orders, s.Spend)

    # A session opened just before the end may meet it once more.
    assert 1 <= len([line for line in told if "takes no writes" in line]) <= 2
    await load.check()
    assert await live.failed_tries() == 0


async def test_a_lock_that_is_held_for_long_costs_no_attempt_and_no_delivery(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    # Far above what a busy machine may keep this process off the processors: a late word is a redelivery.
    tuned(live, postgres={"lock_s": 0.3}, policy={"ack_wait_s": 4.0})
    async with live.running(s.Orders, s.Spend):
        with listening() as heard:
            await load.more(5)
            await live.settled(s.Orders, s.Spend)
            async with live.pool.acquire() as holder, holder.transaction():
                await holder.execute("lock table projectionist.inbox in access exclusive mode")
                await load.more(50)
                await heard.wait("session.ill", 2)
                await heard.wait("source.kept", 8)  # four by each: longer than the ack wait
                await heard.wait("batch.outage", 6)
            await live.settled(s.Orders, s.Spend)

    await load.check()
    assert await live.failed_tries() == 0
    assert [await deliveries(live, cls) for cls in (s.Orders, s.Spend)] == [2 * 55, 2 * 55]


async def deliveries(harness: ConsumerHarness, cls: type) -> int:
    """Count the deliveries that the broker has made to the consumer."""
    durable = await inspection.durable_name(harness, definition(cls).name)
    info = await harness.nats.jetstream().consumer_info(harness.stream.name, durable)
    assert info.delivered is not None
    return int(info.delivered.consumer_seq)


async def test_a_nats_server_that_is_killed_under_load_is_waited_for(
    live: ConsumerHarness, told: list[str]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    tuned(live, policy={"ack_wait_s": 2.0})
    async with live.running(s.Orders, s.Spend):
        with listening() as heard:
            await load.more(200)
            await heard.wait("batch.acked", 2)
            lines = len(told)
            live.servers.kill_nats()
            await heard.wait("broker.disconnected")
            await asyncio.sleep(2)
            said = told[lines:]
            assert len(said) == len(set(said)), said  # each way in which it is away, once
            assert any(line.endswith("disconnected") for line in said), said
            await asyncio.to_thread(live.servers.up)
            await heard.wait("broker.reconnected")
            await eventually(lambda: load_after(load))
            await live.settled(s.Orders, s.Spend)

    await load.check()


async def all_lost(gate: Gateway, number: int) -> bool:
    return gate.lost == number


async def load_after(load: Load) -> bool:
    """More of it, as soon as the broker takes it."""
    await load.more(20)
    return True


async def test_a_process_waits_for_servers_that_are_not_there_yet(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(5)
    async with gateway(live.database) as postgres, gateway(live.servers.nats_url) as broker:
        postgres.refusing = broker.refusing = True
        addresses = {"PROJECTIONIST_POSTGRES__URL": postgres.url, "PROJECTIONIST_NATS__URL": broker.url}
        async with projectionist(
            "run", "tests.support.parking_shop:app", env={**addresses, "HELD_STREAM": live.stream.name}
        ) as child:
            await child.heard("postgres.reach.ill")
            postgres.refusing = False
            await eventually(lambda: tried(broker))
            broker.refusing = False
            await child.heard("worker.running", 2)
            await live.settled(s.Orders, s.Spend)
            child.signal(signal.SIGTERM)
            assert (await child.ended()).code == 0

    await load.check()


async def tried(gate: Gateway) -> bool:
    return gate.attempts > 1


async def test_a_process_that_is_refused_at_the_start_ends_and_says_so(live: ConsumerHarness) -> None:
    parts = urlsplit(live.database)
    stranger = parts._replace(netloc=f"nobody@{parts.netloc.rpartition('@')[2]}").geturl()

    ended = await run_projectionist(
        *("run", "tests.support.parking_shop:app"),
        PROJECTIONIST_POSTGRES__URL=stranger,
        PROJECTIONIST_NATS__URL=live.servers.nats_url,
    )

    assert ended.code == 1
    assert "refuses user or password" in ended.err
    assert "trying again" not in ended.err


@pytest.mark.parametrize("stopped_s", [1.0, 12.0], ids=["shortly", "beyond ack wait and heartbeats"])
async def test_a_nats_server_that_is_stopped_under_load_is_waited_for(
    live: ConsumerHarness, told: list[str], stopped_s: float
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    tuned(live, policy={"ack_wait_s": 2.0})
    async with live.running(s.Orders, s.Spend, processes=2):
        with listening() as heard:
            await load.more(200)
            await heard.wait("batch.acked", 2)
            lines = len(told)
            with live.servers.nats_stopped():
                await asyncio.sleep(stopped_s)
                said = [line for line in told[lines:] if "parked" not in line]  # events overtake one another
            await eventually(lambda: load_after(load))
            await live.settled(s.Orders, s.Spend)

    # At most one line for each of the four consumers and of the two connections.
    assert len(said) <= 6, said
    await load.check()


@pytest.mark.parametrize("ending", ["it carries on", "its connections never carry anything again"])
async def test_a_way_to_nats_that_carries_nothing_while_the_server_runs_is_waited_out(
    live: ConsumerHarness, told: list[str], ending: str
) -> None:
    """Other than with a stopped server, the stream goes on, and what is not acked is delivered again, to nobody."""
    lasting = ending.startswith("its")
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    async with gateway(live.servers.nats_url) as gate:
        tuned(live, nats=gate.url, policy={"ack_wait_s": 1.0}, rows=50)
        async with live.running(s.Orders, s.Spend, processes=2, ping_s=0.5 if lasting else PING_S):
            with listening() as heard:
                await load.more(200)
                await heard.wait("batch.acked", 2)
                gate.stall()
                lines = len(told)
                await load.more(200)
                if lasting:
                    await heard.wait("broker.disconnected", 2)
                    gate.abandon()
                    await heard.wait("broker.reconnected", 2)
                else:
                    await eventually(lambda: at_rest(heard))
                    gate.flow()
                await load.more(50)
                await live.settled(s.Orders, s.Spend)
        said = [line for line in told[lines:] if "parked" not in line]  # events overtake one another

    assert len(said) <= 12, said
    await load.check()
    assert await live.failed_tries() == 0


async def at_rest(heard: Heard) -> bool:
    """What had been received before is settled, and so long ago that the server waits for acks no more."""
    before = heard.counts["batch.entered"]
    await asyncio.sleep(2)
    return heard.counts["batch.entered"] == before
