"""The relay on a real PostgreSQL, with a provider that obeys a script."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import pytest
from tests.support.outbox import (
    FORGETS,
    REMEMBERS,
    SLOW,
    Outbox,
    answer,
    execute_in_silence,
    held_until,
    made,
    scripted,
)
from tests.support.waiting import eventually, listening

from projectionist.core.circuit_breaker import BreakerPolicy
from projectionist.core.postgres.statements import Statements
from projectionist.outbox.intents.keys import body_hash
from projectionist.outbox.providers import Outcome, RenderError, Reply, Request

pytestmark = pytest.mark.asyncio


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
        "insert into projectionist.consumers (name, stream) values ('Orders', 'SHOP') returning number"
    )
    ours, theirs = await harness.want("sms", consumer=number), await harness.want("sms", consumer=number + 1)
    stub = scripted()
    async with harness.relaying(made(stub), consumers=("Orders",)):
        row = await harness.becomes(ours, "held")
    assert row["error"] == "the app has no provider of this name"
    assert await harness.state(theirs) == "ready", "another app's business"
    async with harness.relaying(made(stub, "sms"), consumers=("Orders",)):
        await harness.all_become("sent")


async def test_a_relay_with_shorter_pauses_respects_those_of_another(harness: Outbox) -> None:
    down, stub = scripted(), scripted()
    down.script["*"] = [answer(Outcome.NOT_SENT)] * 20
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
