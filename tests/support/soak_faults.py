"""The faults that a soak rotates. Each returns when it is over: from then on the time to recover is counted."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from random import Random

import asyncpg
import msgspec
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import Gateway
from tests.support.soak_fleet import PROVIDER_S, Fleet, Worker
from tests.support.soak_load import SoakLoad
from tests.support.stub_provider import answer, execute_then_hang, execute_then_reset, reset_mid_body
from tests.support.waiting import comes_true, eventually

from projectionist.outbox.relay.intent_store import lease_of

RUNNER_MOMENTS = (
    "batch.entered",
    "batch.claimed",
    "batch.judged",
    "batch.folded",
    "batch.written",
    "batch.committed",
)
RELAY_MOMENTS = ("relay.leased", "relay.started", "relay.replied", "relay.settled")
KEEPALIVE_S = 4.0
"""After so long the server's system has noticed that a connection is dead. A proxy that keeps the server's side open
instead is another fault: a session in the middle of a message has no timeout, and keeps its locks."""
LOST_ANSWERS = 5
ENDED_TIMES = 3


class Ground(msgspec.Struct, kw_only=True):
    """What faults are made with."""

    live: ConsumerHarness
    fleet: Fleet
    load: SoakLoad
    plan: Callable[..., None]
    """Says what the provider does next."""
    postgres: Gateway
    nats: Gateway
    random: Random
    release: int = 0


Fault = Callable[[Ground], Awaitable[None]]


async def runner_killed(ground: Ground) -> None:
    """A runner is killed wherever it is, and the one that takes its place in the middle of a batch."""
    await _killed(ground, ground.fleet.runners, ground.random.choice(RUNNER_MOMENTS))


async def relay_killed(ground: Ground) -> None:
    """A relay is killed wherever it is, and the one that takes its place in the middle of an attempt."""
    await _killed(ground, ground.fleet.relays, ground.random.choice(RELAY_MOMENTS))


async def killed_before_a_commit(ground: Ground) -> None:
    """A runner is killed when it has written a batch and not committed it, three times."""
    for _ in range(3):
        await _killed(ground, ground.fleet.runners, "batch.written")


async def _killed(ground: Ground, workers: list[Worker], moment: str) -> None:
    victim = ground.random.choice(workers)
    await ground.fleet.stop(victim, signal.SIGKILL)
    await ground.fleet.dies(victim.command, moment, ground.random.randrange(1, 4))
    await ground.fleet.start(victim.command)
    await ground.fleet.at_work()


async def frozen(ground: Ground) -> None:
    """A runner and a relay stand still for longer than their leases, and go on."""
    frozen = [ground.random.choice(ground.fleet.runners), ground.random.choice(ground.fleet.relays)]
    for one in frozen:
        one.child.signal(signal.SIGSTOP)
    await asyncio.sleep(lease_of(PROVIDER_S) + 1)
    for one in frozen:
        one.child.signal(signal.SIGCONT)


async def postgres_killed(ground: Ground) -> None:
    """PostgreSQL is killed, and started again."""
    await _postgres_ends(ground, signal.SIGKILL)


async def postgres_restarted(ground: Ground) -> None:
    """PostgreSQL stops immediately, as at a failover, and is started again."""
    await _postgres_ends(ground, signal.SIGQUIT)


async def _postgres_ends(ground: Ground, how: signal.Signals) -> None:
    async with ground.fleet.until("postgres.reach.ill"):
        await asyncio.to_thread(ground.live.servers.kill_postgres, how)
    await asyncio.to_thread(ground.live.servers.up)


async def nats_killed(ground: Ground) -> None:
    """The NATS server is killed, and started again with its data."""
    async with ground.fleet.until("broker.disconnected"):
        await asyncio.to_thread(ground.live.servers.kill_nats)
    await asyncio.to_thread(ground.live.servers.up)


async def backends_ended(ground: Ground) -> None:
    """Somebody ends all sessions of the processes, and again as soon as they work."""
    connection = await asyncpg.connect(ground.live.database)
    try:
        for _ in range(ENDED_TIMES):
            async with ground.fleet.until("batch.acked", 3):
                await connection.fetch(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and application_name not in ('', 'harness')"
                )
    finally:
        await connection.close()


async def postgres_cut(ground: Ground) -> None:
    """Every way to PostgreSQL ends, and no new one is to be had for a while."""
    await _cut_off(ground, ground.postgres, "postgres.reach.ill")


async def postgres_half_open(ground: Ground) -> None:
    """The ways to PostgreSQL carry nothing any more, and nobody says so until keepalives do; new ones work."""
    ground.postgres.stall()
    await asyncio.sleep(ground.random.uniform(0.2, 1.0))
    ground.postgres.abandon()
    await asyncio.sleep(KEEPALIVE_S)
    ground.postgres.drop_abandoned()


async def nats_cut(ground: Ground) -> None:
    """Every way to NATS ends, and no new one is to be had for a while."""
    await _cut_off(ground, ground.nats, "broker.disconnected")


async def _cut_off(ground: Ground, way: Gateway, noticed: str) -> None:
    async with ground.fleet.until(noticed):
        way.refusing = True
        way.cut()
    way.refusing = False


async def nats_stalled(ground: Ground) -> None:
    """The ways to NATS carry nothing for longer than the wait for acks, and then all that was held back."""
    ground.nats.stall()
    await asyncio.sleep(ground.random.uniform(2.0, 3.0))
    ground.nats.flow()


async def commits_unanswered(ground: Ground) -> None:
    """The answers of some COMMITs are lost, each with its connection."""
    wanted = ground.postgres.lost + LOST_ANSWERS
    ground.postgres.losing = LOST_ANSWERS
    await comes_true(lambda: ground.postgres.lost >= wanted)


async def poisoned(ground: Ground) -> None:
    """A release is deployed that does not digest some events, and then one that does."""
    ground.release += 2
    await ground.fleet.deploy(ground.release - 1, poisoned=True)
    await eventually(lambda: inspection.count_parked(ground.live, cause="failed"))
    await ground.fleet.deploy(ground.release, poisoned=False)


async def storm(ground: Ground) -> None:
    """The producer publishes backwards, and once more what it has published."""
    await ground.load.storm()


async def provider_stumbles(ground: Ground) -> None:
    """The provider does what it is asked and does not say so, refuses, or says half of it."""
    steps = [execute_then_reset, reset_mid_body, answer(503), execute_then_hang] * 2
    ground.random.shuffle(steps)
    async with ground.fleet.until("relay.replied", len(steps)):
        ground.plan(*steps)


FAULTS: tuple[Fault, ...] = (
    *(runner_killed, relay_killed, frozen, poisoned),
    *(
        postgres_killed,
        postgres_restarted,
        postgres_cut,
        postgres_half_open,
        backends_ended,
        commits_unanswered,
    ),
    *(nats_killed, nats_cut, nats_stalled),
    *(provider_stumbles, storm),
)
