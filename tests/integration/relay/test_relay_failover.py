"""PostgreSQL fails over to a standby that lacks the last attempts: none of them is made a second time by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.support.outbox import FORGETS, REMEMBERS, SLOW, Outbox, Scripted, answer, made, outbox, scripted
from tests.support.servers import Servers
from tests.support.standby import standby
from tests.support.waiting import eventually, listening

from projectionist.core.operator import Act
from projectionist.core.postgres.statements import Statements
from projectionist.outbox.admin.intent_actions import IntentActions
from projectionist.outbox.intents.staging import StagedIntent, encode_intents
from projectionist.outbox.providers import Outcome, Profile, Reply, Request
from projectionist.outbox.relay.relay import Relay

pytestmark = pytest.mark.asyncio

LOOKS = msgspec.structs.replace(REMEMBERS, lookup=True, memory_s=60.0)
EARLIER = "update projectionist.relay_owner set token = gen_random_uuid()"
"""As if relays had last sent for another owner."""
WRITE = Statements("projectionist.runner", "projectionist")["insert_intent_batches"]


async def stage(harness: Outbox) -> str:
    """Stage an intent, which no relay has unpacked yet."""
    asked = StagedIntent(
        *("staged", "shop", "e1", "order/1", 1, "Receipt", "Receipt", "stub", "stub"),
        *(None, "pass", b"{}", None, None, 1),
    )
    await harness.connection.execute(WRITE, 1, 1, [1], [encode_intents([asked])])
    return asked.key


@pytest.mark.parametrize(("profile", "state"), [(FORGETS, "reconcile"), (REMEMBERS, "sent")])
async def test_a_standby_without_the_last_attempts_makes_none_of_them_twice(
    harness: Outbox, servers: Servers, database: str, profile: Profile, state: str
) -> None:
    stub = scripted(profile)
    with standby(servers) as other:
        before, tried = await harness.want(), await harness.want()
        stub.script[tried] = [answer(Outcome.RETRY)]
        async with harness.relaying(made(stub, retry=SLOW)):
            await harness.becomes(before, "sent")
            await eventually(lambda: harness.attempts(tried))
        ready, staged = await harness.want(), await stage(harness)
        await other.caught_up()
        await other.cut_off()
        await harness.make_due()
        async with harness.relaying(made(stub)):
            await harness.becomes_known(staged)
            await harness.all_become("sent")
        await other.promote()
        async with outbox(other.url(database)) as there:
            there._numbers = harness._numbers
            assert [await there.state(key) for key in (before, tried, ready)] == ["sent", "ready", "ready"]
            await there.make_due()
            with listening() as heard:
                async with there.relaying(made(stub)):
                    await heard.wait("relay.failed_over")
                    for key in (tried, ready, staged):
                        await there.becomes_known(key)
                        await there.becomes(key, state)
                    fresh = await there.want()
                    await there.becomes(fresh, "sent")
            row = await there.row(ready)
            assert state == "sent" or "failed over" in row["error"]
    assert stub.executions == dict.fromkeys([before, tried, ready, staged, fresh], 1)


async def test_an_attempt_that_was_lost_with_its_record_is_looked_up(harness: Outbox) -> None:
    class Looking(scripted(LOOKS)):  # type: ignore[misc] # a class made for this test
        def render(self, request: Request) -> bytes:
            return b"rendered " + request.body

        async def lookup(self, request: Request) -> Reply:
            assert request.wire.startswith(b"rendered ")
            done = self.executions[request.key]
            return Reply(outcome=Outcome.SENT if done else Outcome.NOT_SENT)

    async with harness.relaying(made(Looking)):
        await harness.becomes(await harness.want(), "sent")
    done, never = await harness.want(), await harness.want()
    Looking.executions[done] += 1
    await harness.connection.execute(EARLIER)
    await harness.connection.execute("update projectionist.intents set created = created - interval '1 h'")
    async with harness.relaying(made(Looking)):
        await harness.all_become("sent")
    assert set(Looking.executions.values()) == {1}
    assert [request.key for request in Looking.sent][1:] == [never]


async def test_a_person_who_lets_it_be_sent_again_after_a_failover_is_not_asked_twice(
    harness: Outbox,
) -> None:
    stub = scripted(FORGETS)
    async with harness.relaying(made(stub)):
        await harness.becomes(await harness.want(), "sent")
    held = await harness.want()
    await harness.connection.execute("update projectionist.outbox set state = 'dead', open = false")
    await harness.connection.execute(EARLIER)
    async with listening_relay(harness, stub) as relay:
        await IntentActions(harness.connection, "projectionist").retry(
            [held], Act("ann", "it was never sent")
        )
        relay.wake()
        await harness.becomes(held, "sent")


@asynccontextmanager
async def listening_relay(harness: Outbox, stub: type[Scripted]) -> AsyncIterator[Relay]:
    """A relay that has noticed the failover."""
    with listening() as heard:
        async with harness.relaying(made(stub)) as relay:
            await heard.wait("relay.failed_over")
            yield relay


async def test_without_a_failover_nothing_is_doubted(harness: Outbox) -> None:
    stub = scripted(FORGETS)
    for _ in range(2):
        key = await harness.want()
        async with harness.relaying(made(stub)):
            await harness.becomes(key, "sent")
    assert stub.executions.total() == 2
