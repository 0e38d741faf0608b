"""PostgreSQL's clock goes back or forward, as after a failover to a machine whose clock differs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import pytest
from tests.support import inspection
from tests.support.clocks import Clock, clocked
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import Load, flowing, tuned
from tests.support.outbox import FORGETS, SLOW, answer, execute, held_until, made, outbox, scripted
from tests.support.process import projectionist
from tests.support.retention import DAY, age, forgets_after, purge, went
from tests.support.scheduling import scheduling
from tests.support.servers import SCHEMA, Servers
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.shop_app import APP, environment
from tests.support.waiting import eventually, listening

from projectionist.core.circuit_breaker import BreakerPolicy
from projectionist.core.postgres.leases import Leases
from projectionist.core.retry_policy import RetryPolicy
from projectionist.outbox.providers import Outcome
from projectionist.outbox.providers.settings import ProviderRetry
from projectionist.outbox.relay.circuit_breakers import Circuits

pytestmark = pytest.mark.asyncio

HOUR = 3600


@pytest.fixture(scope="module")
def servers_and_clock() -> Iterator[tuple[Servers, Clock]]:
    """Servers of their own: nobody else can live with such a clock."""
    with clocked() as made:
        yield made


@pytest.fixture
def servers(servers_and_clock: tuple[Servers, Clock]) -> Servers:
    return servers_and_clock[0]


@pytest.fixture
def clock(servers_and_clock: tuple[Servers, Clock]) -> Iterator[Clock]:
    yield servers_and_clock[1]
    servers_and_clock[1].set(0)


@pytest.mark.parametrize("seconds", [HOUR, 60], ids=["an hour", "a minute"])
async def test_a_clock_that_goes_back_delays_no_retry(
    clock: Clock, live: ConsumerHarness, told: list[str], seconds: int
) -> None:
    s = shop(live.stream)
    s.trouble.later.add("bad")
    await live.migrate(s.Orders)
    tuned(
        live, run={"heartbeat_s": 0.3}, policy={"retry": RetryPolicy(initial_s=1, maximum_s=1, attempts=100)}
    )
    async with live.running(s.Orders):
        await live.publish(OrderPlaced("ann", 1), "o1", 1)
        await live.publish(OrderNoted("bad"), "o1", 2)
        await inspection.reaches("failed", inspection.head_state, live)
        clock.set(-seconds)
        s.trouble.later.clear()
        await reaches(live, s.Orders, 2)
    assert [line for line in told if "clock went back" in line]


async def test_an_operators_retry_is_due_at_once_though_the_clock_went_back_meanwhile(
    clock: Clock, live: ConsumerHarness
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderPaid(), "o1", 3)
    await live.settle(s.Orders)
    await live.pool.execute(f"update {SCHEMA}.positions set due = clock_timestamp()")
    clock.set(-HOUR)
    tuned(live, run={"heartbeat_s": 0.3})
    async with live.running(s.Orders):
        await live.value_of("select due < clock_timestamp() + interval '1 minute' from {s}.positions", True)
        await live.publish(OrderPaid(), "o1", 2)
        await reaches(live, s.Orders, 3)


async def test_what_is_sent_later_is_due_once_by_the_databases_clock_wherever_it_steps(
    clock: Clock, database: str
) -> None:
    """Back: later, and never twice. Forward: early by the step at most, and only what its consumer vouches for."""
    async with scheduling(database) as plan:
        opener = plan.opener()
        key = await plan.wish(1, timedelta(hours=24))
        await opener.step()
        clock.set(-HOUR)
        await plan.catch_up()
        await opener.step()
        assert await plan.place(key) == "scheduled"
        clock.set(25 * HOUR)
        await opener.step()
        assert await plan.place(key) == "scheduled", "nothing says yet that all up to then is settled"
        await plan.catch_up()
        await opener.step()
        assert await plan.place(key) == "ready"
        for seconds in (0, -HOUR, 25 * HOUR):
            clock.set(seconds)
            await plan.catch_up()
            await opener.step()
            assert await plan.lane("order/1") == [key]
        late = await plan.wish(2, timedelta(hours=24))  # in two days, by the machine's clock
        await opener.step()
        clock.set(0)
        await plan.cancel(3)
        await opener.step()
        assert await plan.place(late) == "cancelled", "a cancel needs no clock"


@pytest.mark.parametrize("moment", ["batch.claimed", "batch.written"])
async def test_who_is_frozen_is_ended_though_its_heartbeat_is_of_a_later_clock(
    clock: Clock, live: ConsumerHarness, moment: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(20)
    tuned(live, postgres={"lock_s": 0.5}, run={"heartbeat_s": 0.3}, policy={"ack_wait_s": 1.0}, rows=5)
    env = environment(live, run__heartbeat_s="0.3", batch__max_rows="5")
    async with projectionist("run", APP, env=env, pause_at={moment: 1}) as sleeper:
        await sleeper.heard(moment)
        clock.set(-HOUR)
        async with live.running(s.Orders, s.Spend):
            await load.more(5)
            await live.settled(s.Orders, s.Spend)
        await load.check()
        sleeper.signal(signal.SIGCONT)
        sleeper.signal(signal.SIGTERM)
        await sleeper.ended()
    await load.check()


async def test_claims_of_a_dead_runner_are_taken_over_though_its_lease_is_of_a_later_clock(
    clock: Clock, live: ConsumerHarness
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    await load.more(20)
    tuned(live, run={"heartbeat_s": 0.3, "lease_s": 1.0}, policy={"ack": "after-store", "ack_wait_s": 1.0})
    options = {"consumer_defaults__ack": "after-store", "telemetry__allow_unmonitored": "true"}
    async with projectionist(
        "run",
        APP,
        env=environment(live, run__heartbeat_s="0.3", run__lease_s="1", **options),
        kill_at={"drain.claimed": 1},
    ) as child:
        await child.ended()
    clock.set(-HOUR)
    async with live.running(s.Orders, s.Spend):
        await live.value_of("select count(*) from {s}.positions where head <> 'clear' or version <> 2", 0)
    await load.check()


async def test_a_lease_of_a_later_clock_ends_within_its_own_time(clock: Clock, database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        first, second = Leases(SCHEMA, "first"), Leases(SCHEMA, "second")
        lease = await first.acquire(connection, "thing", 1.0)
        assert lease is not None
        clock.set(-HOUR)

        async def granted() -> bool:
            return await second.acquire(connection, "thing", 1.0) is not None

        await eventually(granted)
        assert await first.renew(connection, lease) is None
    finally:
        await connection.close()


async def test_a_lease_that_a_clock_ends_early_by_going_forward_is_fenced(
    clock: Clock, database: str
) -> None:
    connection = await asyncpg.connect(database)
    try:
        first, second = Leases(SCHEMA, "first"), Leases(SCHEMA, "second")
        lease = await first.acquire(connection, "thing", 10.0)
        assert lease is not None
        clock.set(HOUR)
        other = await second.acquire(connection, "thing", 10.0)
        assert other is not None
        assert other.epoch > lease.epoch
        assert await first.renew(connection, lease) is None
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "jumps", [(HOUR,), (-HOUR,), (HOUR, 0, -HOUR, 0)], ids=["forward", "back", "to and fro"]
)
async def test_a_clock_that_jumps_under_load_loses_and_doubles_nothing(
    clock: Clock, live: ConsumerHarness, jumps: tuple[int, ...]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    load = Load(live, s)
    tuned(live, run={"heartbeat_s": 0.3}, policy={"ack_wait_s": 2.0}, rows=5)
    async with live.running(s.Orders, s.Spend, processes=2), flowing(load):
        with listening() as heard:
            for seconds in jumps:
                clock.set(seconds)
                await heard.wait("heart.beat", heard.counts["heart.beat"] + 12)
        load.stop()
        await live.settled(s.Orders, s.Spend)
    await load.check()


async def test_a_relay_goes_on_with_what_is_due_and_leased_by_a_later_clock(
    clock: Clock, database: str
) -> None:
    """Rates, retries, circuits and the lease of a relay that is no more."""
    retry = ProviderRetry(initial_s=1, maximum_s=1)
    breaker = BreakerPolicy(failures=1, open_s=1, maximum_s=1)
    cls = scripted()
    async with outbox(database) as harness:
        again, dead, down = await harness.want(), await harness.want(), await harness.want(destination="down")
        cls.script[again] = [answer(Outcome.RETRY)]
        cls.script[down] = [answer(Outcome.NOT_SENT)]
        provider = made(cls, retry=retry, breaker=breaker, rate_per_s=20, burst=2, timeout_s=1.0)
        async with harness.relaying(provider):
            await harness.becomes(dead, "sent")
            clock.set(-HOUR)
            await harness.all_become("sent")
            for _ in range(10):
                await harness.want()
            await harness.all_become("sent")
    assert set(cls.executions.values()) == {1}
    assert cls.executions[down] == 1


async def test_a_circuit_that_opens_while_the_clock_goes_back_stays_open_no_longer(
    clock: Clock, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pause is reckoned by the old clock, and written when the relay has done with what waited by it."""
    reckoned, noticed = asyncio.Event(), asyncio.Event()
    keep = Circuits._keep

    async def held(self: Circuits, *fields: Any) -> bool:
        reckoned.set()
        await noticed.wait()
        return await keep(self, *fields)

    monkeypatch.setattr(Circuits, "_keep", held)
    cls = scripted()
    async with outbox(database) as harness:
        key = await harness.want()
        cls.script[key] = [answer(Outcome.NOT_SENT)]
        with listening() as heard:
            async with harness.relaying(made(cls, breaker=BreakerPolicy(failures=1, open_s=1, maximum_s=1))):
                await reckoned.wait()
                clock.set(-HOUR)
                await heard.wait("clock.back")
                noticed.set()
                await harness.becomes(key, "sent")
    assert cls.executions == {key: 1}


async def test_a_relay_started_after_the_clock_went_back_takes_up_leases_of_another(
    clock: Clock, database: str
) -> None:
    cls = scripted()
    async with outbox(database) as harness:
        key = await harness.want()
        await harness.connection.execute(
            f"update {SCHEMA}.outbox set state = 'leased', token = gen_random_uuid(),"
            " lease_until = clock_timestamp() + interval '10 s'"
        )
        clock.set(-HOUR)
        async with harness.relaying(made(cls, timeout_s=0.1)):
            await harness.becomes(key, "sent")


@pytest.mark.parametrize("seconds", [HOUR, -HOUR], ids=["forward", "back"])
async def test_what_a_relay_is_sending_when_the_clock_jumps_is_done_once(
    clock: Clock, database: str, seconds: int
) -> None:
    """A lease that is over too early lets another relay ask again, under the same key."""
    cls, answers = scripted(), asyncio.Event()
    async with outbox(database) as harness:
        keys = [await harness.want() for _ in range(4)]
        for key in keys:
            cls.script[key] = [held_until(answers)]
        async with harness.relaying(made(cls)):
            await harness.all_become("started")
            clock.set(seconds)
            later = [await harness.want() for _ in range(4)]
            async with harness.relaying(made(cls)):
                for key in later:
                    await harness.becomes(key, "sent")
                answers.set()
                await harness.all_become("sent")
    assert cls.executions == dict.fromkeys([*keys, *later], 1)


async def test_a_clock_that_goes_back_makes_no_key_younger_than_its_provider_remembers(
    clock: Clock, database: str
) -> None:
    """Otherwise a key that the provider has forgotten would be sent again."""
    profile = type(FORGETS)(
        **{**{f: getattr(FORGETS, f) for f in FORGETS.__struct_fields__}, "memory_s": HOUR}
    )
    cls = scripted(profile)
    async with outbox(database) as harness:
        key, other = await harness.want(lane="a"), await harness.want(lane="b")
        cls.script[key] = [answer(Outcome.RETRY), answer(Outcome.RETRY), execute]
        async with harness.relaying(made(cls, retry=SLOW)):
            await harness.becomes(other, "sent")
            await harness.age(key, 2 * HOUR)
            clock.set(-2 * HOUR)
            third = await harness.want(lane="c")
            await harness.becomes(third, "sent")
            await harness.make_due()
            await harness.becomes(key, "reconcile")
    assert not cls.executions[key]


@pytest.mark.parametrize("wrong", ["when it purges", "when it settled"])
async def test_a_clock_that_is_wrong_once_removes_nothing_early(
    clock: Clock, live: ConsumerHarness, wrong: str
) -> None:
    """Retention is told by PostgreSQL's clock and by ours; the later of both decides what stays."""
    s = shop(live.stream, sequence="unordered")
    await forgets_after(live, 1)
    await live.migrate(s.Spend)
    two_days = msgspec.structs.replace(live.policy, retention_s=2 * DAY)
    clock.set(-3 * int(DAY) if wrong == "when it settled" else 0)
    await live.publish(OrderPlaced("ann", 7), "o1", 1, id="once")
    await live.settle(s.Spend)
    clock.set(3 * int(DAY) if wrong == "when it purges" else 0)
    assert went(await purge(live, s.Spend, policy=two_days)) == {}
    clock.set(0)
    await age(live, 3)
    assert went(await purge(live, s.Spend, policy=two_days)) == {"inbox": 1}


async def test_a_breaker_that_a_later_clock_has_opened_lets_a_probe_through(
    clock: Clock, live: ConsumerHarness
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.pool.execute(
        f"insert into {SCHEMA}.consumer_breakers (consumer, state, epoch, failures, openings, until, pause_s,"
        " reason)"
        f" select number, 'open', 1, 1, 1, clock_timestamp() + interval '30 s', 30, 'many keys' from {SCHEMA}.consumers"
    )
    clock.set(-HOUR)
    async with live.running(s.Orders):
        await reaches(live, s.Orders, 1)


async def reaches(live: ConsumerHarness, cls: type, version: int) -> None:
    """Wait until the order stands there, and nothing waits behind it."""

    async def reached() -> bool:
        head = await live.head(cls, "order/o1")
        assert head == (version, "clear", 0)
        return True

    await eventually(reached)


async def test_the_library_moves_the_servers_clock_alone(clock: Clock, live: ConsumerHarness) -> None:
    """What all of this stands on."""
    here = asyncio.get_running_loop().time()
    before = await live.value("select extract(epoch from clock_timestamp())::float8")
    clock.set(-HOUR)
    after = await live.value("select extract(epoch from clock_timestamp())::float8")
    assert -HOUR <= after - before <= -HOUR + asyncio.get_running_loop().time() - here + 1
