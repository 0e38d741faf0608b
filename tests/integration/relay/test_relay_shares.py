"""Room, rates, polls and wake-ups: destinations and relays share what there is, and none waits for a poll."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.support.outbox import (
    FAST,
    FORGETS,
    Outbox,
    Scripted,
    answer,
    execute,
    held_until,
    made,
    scripted,
)
from tests.support.waiting import HANG_S, cancelled, eventually, listening

from projectionist.core.circuit_breaker import BreakerPolicy
from projectionist.outbox.providers import Outcome, Reply, Request
from projectionist.outbox.relay.notify import Notifier

pytestmark = pytest.mark.asyncio


async def test_an_outage_opens_the_circuit_costs_no_attempts_and_ends_by_itself(harness: Outbox) -> None:
    stub = scripted()
    down = [answer(Outcome.NOT_SENT, reason="could not connect")] * 20
    stub.script["*"] = down
    keys = [await harness.want(lane=f"order/{n}") for n in range(30)]
    policy = BreakerPolicy(failures=3, open_s=0.2, maximum_s=0.2)
    once = msgspec.structs.replace(FAST, attempts=1)
    with listening() as heard:
        async with harness.relaying(made(stub, breaker=policy, concurrency=4, retry=once)):
            await heard.wait("circuit.opened")
            await harness.all_become("sent")
            await heard.wait("circuit.closed")
    assert stub.executions == dict.fromkeys(keys, 1)
    assert heard.counts["circuit.opened"] > 3, "half open tries one, and that one failed too"
    assert len(stub.sent) == len(keys) + 20


async def test_what_is_no_fault_of_a_destination_leaves_its_circuit_alone(harness: Outbox) -> None:
    stub = scripted()
    stub.script["*"] = [answer(Outcome.NOT_SENT, reason="no room", ours=True)] * 20
    for n in range(10):
        await harness.want(lane=f"order/{n}")
    with listening() as heard:
        async with harness.relaying(made(stub, breaker=BreakerPolicy(failures=3, open_s=600, maximum_s=600))):
            await harness.all_become("sent")
    assert heard.counts["circuit.opened"] == 0


@pytest.mark.parametrize("crowds", [1, 3])
async def test_a_slow_destination_leaves_room_to_the_others(harness: Outbox, crowds: int) -> None:
    stub, answers = scripted(), asyncio.Semaphore(0)
    arrived: asyncio.Queue[str] = asyncio.Queue()

    async def take(provider: Scripted, request: Request) -> Reply:
        reply = await execute(provider, request)
        arrived.put_nowait(request.destination)
        if request.destination != "fast":
            await answers.acquire()
        return reply

    stub.script["*"] = [take] * 400
    for n in range(300):
        await harness.want(destination=f"slow{n % crowds}")
    async with harness.relaying(made(stub, concurrency=8, timeout_s=600), look_s=0.0) as relay:
        for _ in range(8):
            assert (await asyncio.wait_for(arrived.get(), HANG_S)) != "fast"
        fast = [await harness.want(destination="fast") for _ in range(5)]
        relay.wake()
        slow_ones = 0
        for _ in fast:
            answers.release()
            while await asyncio.wait_for(arrived.get(), HANG_S) != "fast":
                slow_ones += 1
                answers.release()
        for _ in range(400):
            answers.release()
    assert slow_ones <= 8 + 5 * crowds, "what was leased when the fast ones came, and a turn for everybody"


async def test_room_goes_to_those_who_wait_beside_a_crowd_wherever_their_lanes_stand(
    harness: Outbox,
) -> None:
    """The last look for others ended behind them; the crowd does not get what is free until it has gone all round."""
    stub, last, slow = scripted(), asyncio.Event(), asyncio.Semaphore(0)
    arrived: asyncio.Queue[str] = asyncio.Queue()

    async def take(provider: Scripted, request: Request) -> Reply:
        reply = await execute(provider, request)
        arrived.put_nowait(request.destination)
        if request.destination == "slow":
            await slow.acquire()
        elif request.destination == "last":
            await last.wait()
        return reply

    stub.script["*"] = [take] * 400
    for n in range(50):
        await harness.want(destination="slow", lane=f"order/{'mz'[n % 2]}{n}")
    async with harness.relaying(made(stub, concurrency=4, timeout_s=600), look_s=0.0) as relay:
        for _ in range(4):
            assert await asyncio.wait_for(arrived.get(), HANG_S) == "slow"
        await harness.want(destination="last", lane="order/p")
        relay.wake()
        slow.release()
        assert await asyncio.wait_for(arrived.get(), HANG_S) == "last"
        for n in range(5):
            await harness.want(destination="fast", lane=f"order/a{n}")
        last.set()
        for _ in range(5):
            assert await asyncio.wait_for(arrived.get(), HANG_S) == "fast"
        for _ in range(50):
            slow.release()
        await harness.all_become("sent")


async def test_a_destination_has_all_room_while_no_other_waits(harness: Outbox) -> None:
    stub, gate = scripted(), asyncio.Event()
    stub.script["*"] = [held_until(gate)] * 40
    for _ in range(20):
        await harness.want(destination="only")
    async with harness.relaying(made(stub, concurrency=8, timeout_s=600)):
        await eventually(lambda: working(stub, 8))
        gate.set()
        await harness.all_become("sent")


async def working(stub: type[Scripted], count: int) -> bool:
    return sum(stub.in_flight.values()) == count


async def test_a_rate_is_shared_by_all_relays(harness: Outbox) -> None:
    stub = scripted()
    for n in range(30):
        await harness.want(lane=f"order/{n}")
    loop = asyncio.get_running_loop()
    began = loop.time()
    one, other = (made(stub, rate_per_s=40.0, burst=10) for _ in range(2))
    async with harness.relaying(one), harness.relaying(other):
        await harness.all_become("sent")
    assert loop.time() - began > 0.45, "20 beyond the burst, at 40 a second"


async def test_two_relays_share_the_work_and_nothing_is_done_twice(harness: Outbox) -> None:
    stub = scripted(FORGETS)
    keys = {await harness.want(lane=f"order/{n % 50}") for n in range(300)}
    async with harness.relaying(made(stub)), harness.relaying(made(stub)):
        await harness.all_become("sent")
    assert stub.executions == dict.fromkeys(keys, 1)
    assert set(stub.most_in_flight.values()) == {1}


async def test_a_lost_wake_up_costs_a_poll(harness: Outbox) -> None:
    stub = scripted()
    async with harness.relaying(made(stub), poll_s=0.2):
        await harness.becomes(await harness.want(), "sent")


async def test_a_wake_up_starts_at_once_what_a_poll_would_start_later(harness: Outbox) -> None:
    stub, waker = scripted(), Notifier(harness.settings.postgres)
    with listening() as heard:
        running = asyncio.create_task(waker.run())
        async with harness.relaying(made(stub), poll_s=600):
            await heard.wait("relay.listening")
            for _ in range(5):
                key = await harness.want()
                for _ in range(100):
                    waker.wake()
                await harness.becomes(key, "sent")
        await cancelled(running)
        assert heard.counts["waker.notified"] < 50, "many wake-ups, few notifies"


async def test_an_idle_relay_asks_at_most_once_a_second(harness: Outbox) -> None:
    providers = [made(scripted(), f"p{n}") for n in range(3)]
    stuck = await harness.want("p0")
    providers[0].script[stuck] = [answer(Outcome.STICKY)]
    async with harness.relaying(*providers):
        await harness.becomes(stuck, "reconcile")
        with listening() as heard:
            began = asyncio.get_running_loop().time()
            await heard.wait("relay.asked", 4)
            took = asyncio.get_running_loop().time() - began
    assert took > 3, f"4 questions within {took:.1f} s"


async def test_destinations_that_are_well_and_full_buckets_are_forgotten_after_a_day(harness: Outbox) -> None:
    stub = scripted()
    day = "clock_timestamp() - interval '25 hours'"
    await harness.connection.execute(
        f"""insert into projectionist.circuits (provider, destination, state, held, changed) values
            ('stub', 'well', 'closed', null, {day}), ('stub', 'fresh', 'closed', null, clock_timestamp()),
            ('stub', 'open', 'open', null, {day}), ('stub', 'held', 'closed', 'gone', {day}),
            ('other', 'well', 'closed', null, {day});
        insert into projectionist.buckets (provider, destination, tokens, granted, refilled) values
            ('stub', 'full', 0, 1, {day}), ('stub', 'fresh', 0, 1, clock_timestamp()), ('other', 'full', 0, 1, {day})"""
    )
    with listening() as heard:
        async with harness.relaying(made(stub, rate_per_s=1.0, burst=5)):
            await heard.wait("relay.tended")
    assert await harness.destinations("circuits") == ["other well", "stub fresh", "stub held", "stub open"]
    assert await harness.destinations("buckets") == ["other full", "stub fresh"]
    slow = made(stub, rate_per_s=0.00001, burst=5)
    await harness.connection.execute(f"update projectionist.buckets set refilled = {day}")
    with listening() as heard:
        async with harness.relaying(slow):
            await heard.wait("relay.tended")
    assert await harness.destinations("buckets") == ["other full", "stub fresh"], "it is not full yet"
