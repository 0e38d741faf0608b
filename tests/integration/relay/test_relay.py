"""The relay on a real PostgreSQL, with a provider that obeys a script."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.support.outbox import (
    FAST,
    FORGETS,
    REMEMBERS,
    SLOW,
    Outbox,
    Scripted,
    answer,
    execute,
    execute_in_silence,
    held_until,
    made,
    outbox,
    scripted,
)
from tests.support.servers import Servers
from tests.support.waiting import HANG_S, cancelled, eventually, listening

from projectionist.core.circuit_breaker import BreakerPolicy
from projectionist.core.postgres.statements import Statements
from projectionist.outbox.intents.keys import body_hash
from projectionist.outbox.providers import Outcome, RenderError, Reply, Request
from projectionist.outbox.relay.database_link import DatabaseUnavailable
from projectionist.outbox.relay.intent_store import IntentStore, LeasedIntent
from projectionist.outbox.relay.notify import Notifier

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def harness(database: str) -> AsyncIterator[Outbox]:
    async with outbox(database) as harness:
        yield harness


async def test_an_intent_is_sent_once_and_its_reply_is_kept(harness: Outbox) -> None:
    stub = scripted()
    key = await harness.want(body={"order_id": "o-1"})
    async with harness.relaying(made(stub)):
        row = await harness.becomes(key, "sent")
    assert stub.executions == {key: 1}
    assert (row["status"], row["provider_id"], row["attempt"], row["open"]) == (
        "200",
        f"p-{key[:6]}",
        1,
        False,
    )
    assert row["settled"] is not None
    assert row["memory_s"] == 86_400
    (attempt,) = await harness.attempts(key)
    assert (attempt["attempt"], attempt["outcome"], attempt["status"]) == (1, "sent", "200")


async def test_many_intents_are_all_sent_once(harness: Outbox) -> None:
    stub = scripted()
    keys = {await harness.want(lane=f"order/{n % 40}") for n in range(200)}
    async with harness.relaying(made(stub)):
        await harness.all_become("sent")
    assert stub.executions == dict.fromkeys(keys, 1)
    assert set(stub.most_in_flight.values()) == {1}


async def test_of_one_lane_one_is_in_flight_and_they_go_in_order(harness: Outbox) -> None:
    stub, gate = scripted(), asyncio.Event()
    first, second = await harness.want(lane="order/1"), await harness.want(lane="order/1")
    other = await harness.want(lane="order/2")
    stub.script[first] = [held_until(gate)]
    async with harness.relaying(made(stub)):
        await harness.becomes(other, "sent")
        await harness.becomes(first, "started")
        assert await harness.state(second) == "ready"
        gate.set()
        await harness.becomes(second, "sent")
    assert [request.key for request in stub.sent if request.key != other] == [first, second]


async def test_a_dead_head_is_passed_unless_its_class_blocks(harness: Outbox) -> None:
    stub = scripted()
    passed, after = await harness.want(lane="order/1"), await harness.want(lane="order/1")
    blocking, waiting = [await harness.want(lane="order/2", on_dead="block") for _ in range(2)]
    for key in (passed, blocking):
        stub.script[key] = [answer(Outcome.REFUSED, reason="no such customer", status="404")]
    async with harness.relaying(made(stub)):
        await harness.becomes(after, "sent")
        row = await harness.becomes(blocking, "dead")
    assert (row["open"], row["error"]) == (True, "no such customer")
    assert [a["status"] for a in await harness.attempts(blocking)] == ["404"]
    assert await harness.state(passed) == "dead"
    assert await harness.state(waiting) == "ready"


async def test_a_mismatch_is_dead_and_an_incident(harness: Outbox) -> None:
    stub = scripted()
    key = await harness.want()
    stub.script[key] = [answer(Outcome.MISMATCH, reason="other content")]
    async with harness.relaying(made(stub)):
        row = await harness.becomes(key, "dead")
    incident = await harness.connection.fetchrow("select * from projectionist.incidents")
    assert incident is not None
    assert (incident["kind"], incident["seq"], incident["detail"]) == (
        "intent_mismatch",
        row["seq"],
        "stub: other content",
    )


async def test_a_lost_answer_is_found_out_by_the_same_key_and_the_same_bytes(harness: Outbox) -> None:
    stub = scripted()
    key = await harness.want()
    stub.script[key] = [execute_in_silence]
    async with harness.relaying(made(stub)):
        row = await harness.becomes(key, "sent")
    assert stub.executions == {key: 1}
    assert row["attempt"] == 2
    assert len({(request.key, request.wire) for request in stub.sent}) == 1
    assert [a["outcome"] for a in await harness.attempts(key)] == ["unknown", "sent"]
    assert [a["replayed"] for a in await harness.attempts(key)] == [False, True]


async def test_without_a_memory_a_lost_answer_waits_for_a_person_and_holds_its_lane_alone(
    harness: Outbox,
) -> None:
    stub = scripted(FORGETS)
    first, second = await harness.want(lane="order/1"), await harness.want(lane="order/1")
    other = await harness.want(lane="order/2")
    stub.script[first] = [execute_in_silence]
    async with harness.relaying(made(stub)):
        row = await harness.becomes(first, "reconcile")
        await harness.becomes(other, "sent")
    assert (row["open"], row["error"]) == (True, "no answer")
    assert await harness.state(second) == "ready"
    assert stub.executions[first] == 1


async def test_at_least_once_is_a_choice_by_name(harness: Outbox) -> None:
    stub = scripted(FORGETS)
    key = await harness.want()
    stub.script[key] = [execute_in_silence]
    async with harness.relaying(made(stub, delivery="at-least-once")):
        await harness.becomes(key, "sent")
    assert stub.executions == {key: 2}


async def test_what_may_have_been_done_waits_for_a_person_when_a_later_attempt_is_refused(
    harness: Outbox,
) -> None:
    stub = scripted(FORGETS)
    key = await harness.want()
    stub.script[key] = [execute_in_silence, answer(Outcome.RETRY), answer(Outcome.REFUSED, ours=True)]
    async with harness.relaying(made(stub, delivery="at-least-once")):
        row = await harness.becomes(key, "reconcile")
    assert stub.executions == {key: 1}
    assert row["open"]
    assert [a["outcome"] for a in await harness.attempts(key)] == ["unknown", "retry", "refused"]


async def test_past_the_memory_nothing_is_sent_by_itself(harness: Outbox) -> None:
    stub = scripted()
    key = await harness.want()
    stub.script[key] = [answer(Outcome.RETRY)]
    async with harness.relaying(made(stub, retry=SLOW)) as relay:
        await eventually(lambda: harness.attempts(key))
        await harness.age(key, 0.8 * 86_400)
        await harness.make_due()
        relay.wake()
        row = await harness.becomes(key, "reconcile")
    assert row["error"] == "the provider may have forgotten the key by now"
    assert len(stub.sent) == 1


async def test_a_step_is_not_recorded_as_begun_once_the_memory_has_passed(harness: Outbox) -> None:
    """The claim looked before, the start looks again, in the statement that records it."""
    key = await harness.want()
    await harness.connection.execute(
        "update projectionist.outbox set state = 'leased', token = gen_random_uuid(), attempt = 1, "
        "lease_until = clock_timestamp() + interval '1 min', first_started = clock_timestamp() - interval '2 h'"
    )
    row = await harness.row(key)
    text = Statements("projectionist.outbox", "projectionist")["start_attempts"]
    columns = [[row["seq"]], [None], [None], [None]]
    assert await harness.connection.fetch(text, row["token"], *columns, 3600.0) == []
    assert len(await harness.connection.fetch(text, row["token"], *columns, 3 * 3600.0)) == 1


async def test_an_attempt_does_not_begin_after_its_lease(harness: Outbox) -> None:
    key = await harness.want()
    await harness.connection.execute(
        "update projectionist.outbox set state = 'leased', token = gen_random_uuid(), lease_until = clock_timestamp()"
    )
    row = await harness.row(key)
    text = Statements("projectionist.outbox", "projectionist")["start_attempts"]
    assert (
        await harness.connection.fetch(text, row["token"], [row["seq"]], [None], [None], [None], None) == []
    )


async def test_what_cannot_be_rendered_is_refused_before_an_attempt(harness: Outbox) -> None:
    class Unrenderable(scripted()):  # type: ignore[misc] # a class made for this test
        def render(self, request: Request) -> bytes:
            raise RenderError("no recipient")

    key = await harness.want()
    async with harness.relaying(made(Unrenderable)):
        row = await harness.becomes(key, "dead")
    assert (row["attempt"], row["error"]) == (0, "cannot be rendered: no recipient")
    assert Unrenderable.sent == []


async def test_the_wire_bytes_are_those_of_the_first_attempt_even_under_newer_code(harness: Outbox) -> None:
    class Old(scripted()):  # type: ignore[misc] # a class made for this test
        def render(self, request: Request) -> bytes:
            return b"old " + request.body

    class New(Old):
        def render(self, request: Request) -> bytes:
            return b"new " + request.body

    key = await harness.want(body={"a": 1})
    Old.script[key] = [answer(Outcome.RETRY, after_s=0.05)]
    async with harness.relaying(made(Old)):
        await eventually(lambda: harness.attempts(key))
    async with harness.relaying(made(New)):
        row = await harness.becomes(key, "sent")
    assert [request.wire for request in Old.sent] == [b'old {"a":1}'] * 2
    assert row["wire_hash"] == body_hash(b'old {"a":1}')


async def test_a_destination_that_is_gone_is_held_with_all_that_is_for_it(harness: Outbox) -> None:
    stub = scripted()
    first = await harness.want(destination="acme", lane="a")
    stub.script[first] = [answer(Outcome.REFUSED, hold=True, status="410", reason="the destination is gone")]
    async with harness.relaying(made(stub)) as relay:
        await harness.becomes(first, "held")
        held = "select held from projectionist.circuits where destination = 'acme'"
        await eventually(lambda: harness.connection.fetchval(held))
        second = await harness.want(destination="acme", lane="b")
        third = await harness.want(destination="other", lane="c")
        relay.wake()
        await harness.becomes(third, "sent")
    assert await harness.state(second) == "ready"
    assert [request.key for request in stub.sent] == [first, third]


async def test_intents_of_a_missing_provider_are_held_and_go_on_when_it_is_there(harness: Outbox) -> None:
    number = await harness.connection.fetchval(
        "insert into projectionist.consumers (name, kind, shape, code, stream, key_name) "
        "values ('Orders', 'projection', '', '', 'SHOP', 'Orders') returning number"
    )
    ours, theirs = await harness.want("sms", consumer=number), await harness.want("sms", consumer=number + 1)
    stub = scripted()
    async with harness.relaying(made(stub), consumers=("Orders",)):
        row = await harness.becomes(ours, "held")
    assert row["error"] == "the app has no provider of this name"
    assert await harness.state(theirs) == "ready", "another app's business"
    async with harness.relaying(made(stub, "sms"), consumers=("Orders",)):
        await harness.all_become("sent")


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


async def test_a_relay_with_shorter_pauses_respects_those_of_another(harness: Outbox) -> None:
    down, stub = scripted(), scripted()
    down.script["*"] = [answer(Outcome.NOT_SENT)]
    patient = BreakerPolicy(failures=1, open_s=600, maximum_s=600)
    brief = BreakerPolicy(failures=1, open_s=0.1, maximum_s=0.1, probe_s=0.1)
    held = [await harness.want(lane=f"a/{n}", destination="down") for n in range(2)]
    with listening() as heard:
        async with harness.relaying(made(down, breaker=patient, concurrency=1)):
            await heard.wait("circuit.opened")
        other = await harness.want(lane="b")
        async with harness.relaying(made(stub, breaker=brief)):
            await harness.becomes(other, "sent")
    assert stub.executions == {other: 1}
    assert [await harness.state(key) for key in held] == ["ready", "ready"]


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
    providers = [made(scripted(), f"p{n}") for n in range(6)]
    stuck = await harness.want("p0")
    providers[0].script[stuck] = [answer(Outcome.STICKY)]
    async with harness.relaying(*providers):
        await harness.becomes(stuck, "reconcile")
        with listening() as heard:
            began = asyncio.get_running_loop().time()
            await heard.wait("relay.asked", 7)
            took = asyncio.get_running_loop().time() - began
    assert took > 6, f"7 questions within {took:.1f} s"


async def test_a_late_reply_of_a_relay_that_slept_is_taken_as_evidence(harness: Outbox) -> None:
    """The first relay sleeps past its lease; the second finds the attempt without a reply; then the first tells."""
    stub, gate = scripted(FORGETS), asyncio.Event()
    key = await harness.want()
    stub.script[key] = [held_until(gate)]
    async with harness.relaying(made(stub)):
        await harness.becomes(key, "started")
        await harness.end_leases()
        async with harness.relaying(made(stub)):
            await harness.becomes(key, "reconcile")
            gate.set()
            row = await harness.becomes(key, "sent")
    assert stub.executions == {key: 1}
    assert row["attempt"] == 1
    assert [a["outcome"] for a in await harness.attempts(key)] == ["sent"]


async def test_what_is_taken_over_from_another_relay_is_told_in_one_line(
    harness: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    stub, gate = scripted(FORGETS), asyncio.Event()
    keys = [await harness.want(), await harness.want()]
    stub.script.update({key: [held_until(gate)] for key in keys})
    async with harness.relaying(made(stub)):
        for key in keys:
            await harness.becomes(key, "started")
        await harness.end_leases()
        caplog.clear()
        async with harness.relaying(made(stub)):
            for key in keys:
                await harness.becomes(key, "reconcile")
            gate.set()
            for key in keys:
                await harness.becomes(key, "sent")
    told = [record for record in caplog.records if "taken over" in record.getMessage()]
    assert sum(getattr(record, "facts")["count"] for record in told) == len(keys)  # noqa: B009  set by `extra`
    assert re.search(
        r"\d intents are taken over .* \(\d may have been sent\), the first: \S+", told[0].getMessage()
    )


async def test_a_late_refusal_does_not_undo_what_came_after(harness: Outbox) -> None:
    stub, gate = scripted(), asyncio.Event()

    async def refuse_late(_: Scripted, __: Request) -> Reply:
        await gate.wait()
        return Reply(outcome=Outcome.REFUSED)

    key = await harness.want()
    stub.script[key] = [refuse_late]
    async with harness.relaying(made(stub)):
        await harness.becomes(key, "started")
        await harness.end_leases()
        async with harness.relaying(made(stub)):
            await harness.becomes(key, "sent")
        gate.set()
    row = await harness.row(key)
    assert (row["state"], row["attempt"]) == ("sent", 2)


async def test_a_lease_that_ran_out_before_an_attempt_costs_nothing(harness: Outbox) -> None:
    stub = scripted(FORGETS)
    key = await harness.want()
    await harness.connection.execute(
        "update projectionist.outbox set state = 'leased', token = gen_random_uuid(), lease_until = clock_timestamp()"
    )
    async with harness.relaying(made(stub)):
        row = await harness.becomes(key, "sent")
    assert row["attempt"] == 1


async def test_a_reply_is_kept_through_an_outage_of_the_database(harness: Outbox, servers: Servers) -> None:
    stub, gate = scripted(FORGETS), asyncio.Event()
    key = await harness.want()
    stub.script[key] = [held_until(gate)]
    with listening() as heard:
        async with harness.relaying(made(stub)):
            await harness.becomes(key, "started")
            servers.kill_postgres()
            gate.set()
            await heard.wait("relay.away")
            servers.up()
            async with outbox(harness.settings.postgres.url.reveal()) as again:  # type: ignore[union-attr] # set above
                row = await again.becomes(key, "sent")
    assert row["attempt"] == 1
    assert stub.executions == {key: 1}


async def test_without_an_answer_to_the_start_nothing_is_sent(
    harness: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start commits and its answer is lost: the relay sends nothing, and says that nothing was sent."""
    stub, lost = scripted(FORGETS), iter([True])
    start = IntentStore.start

    async def losing(self: IntentStore, *arguments: Any) -> list[LeasedIntent]:
        begun = await start(self, *arguments)
        if next(lost, False):
            raise DatabaseUnavailable("the answer was lost")
        return begun

    monkeypatch.setattr(IntentStore, "start", losing)
    key = await harness.want()
    async with harness.relaying(made(stub, retry=msgspec.structs.replace(FAST, attempts=1))):
        row = await harness.becomes(key, "sent")
    assert stub.executions == {key: 1}
    assert row["attempt"] == 2


async def test_a_relay_that_stops_finishes_what_it_started_and_leases_nothing_more(harness: Outbox) -> None:
    stub, gate = scripted(), asyncio.Event()
    first = await harness.want()
    stub.script[first] = [held_until(gate)]
    async with harness.relaying(made(stub)) as relay:
        await harness.becomes(first, "started")
        relay.stop()
        second = await harness.want()
        gate.set()
    assert await harness.state(first) == "sent"
    assert await harness.state(second) == "ready"


async def test_a_relay_that_may_not_wait_leaves_the_outcome_unknown(harness: Outbox) -> None:
    stub = scripted(FORGETS)
    key = await harness.want()
    stub.script[key] = [held_until(asyncio.Event())]
    async with harness.relaying(made(stub)) as relay:
        await harness.becomes(key, "started")
        relay.stop()
        relay.abandon()
    row = await harness.row(key)
    assert (row["state"], row["error"]) == ("reconcile", "the relay was stopped before there was an answer")


async def test_a_provider_that_has_a_lookup_is_asked_before_a_person(harness: Outbox) -> None:
    class Findable(scripted(msgspec.structs.replace(REMEMBERS, memory_s=100.0, lookup=True))):  # type: ignore[misc] # for this test
        async def lookup_hint(self, request: Request) -> str:
            return "42"

        async def lookup(self, request: Request) -> Reply:
            assert request.lookup_hint == "42"
            found = self.executions[request.key]
            return Reply(outcome=Outcome.SENT if found else Outcome.NOT_SENT)

    done, lost = await harness.want(), await harness.want()
    Findable.script[done] = [execute_in_silence]
    Findable.script[lost] = [answer(Outcome.UNKNOWN)]
    async with harness.relaying(made(Findable, retry=SLOW)) as relay:
        for key in (done, lost):
            await eventually(partial(harness.attempts, key))
            await harness.age(key, 81.0)
        await harness.make_due()
        relay.wake()
        await harness.all_become("sent")
    assert Findable.executions == {done: 1, lost: 1}
    assert (await harness.row(done))["attempt"] == 1
    assert (await harness.row(lost))["attempt"] == 2


async def test_a_relay_that_stops_blames_no_destination(harness: Outbox) -> None:
    stub = scripted()
    keys = [await harness.want(lane=f"order/{n}") for n in range(8)]
    for key in keys:
        stub.script[key] = [held_until(asyncio.Event())]
    async with harness.relaying(made(stub)) as relay:
        for key in keys:
            await harness.becomes(key, "started")
        relay.stop()
        relay.abandon()
    assert await harness.states() == {"ready": 8}
    assert await harness.connection.fetch("select from projectionist.circuits") == []


async def test_a_provider_that_breaks_while_it_begins_leaves_the_outcome_unknown(harness: Outbox) -> None:
    class Broken(scripted(FORGETS)):  # type: ignore[misc] # a class made for this test
        def begin(self, request: Request) -> asyncio.Future[Reply] | None:
            raise RuntimeError(request.key)

    key = await harness.want()
    async with harness.relaying(made(Broken)):
        row = await harness.becomes(key, "reconcile")
    assert row["error"] == "the provider raised RuntimeError"


async def test_a_provider_that_raises_leaves_the_outcome_unknown(harness: Outbox) -> None:
    async def raises(_: Scripted, __: Request) -> Reply:
        raise RuntimeError

    stub = scripted(FORGETS)
    key = await harness.want()
    stub.script[key] = [raises]
    async with harness.relaying(made(stub)):
        row = await harness.becomes(key, "reconcile")
    assert row["error"] == "the provider raised RuntimeError"
