"""Leases of intents: they run out, another relay takes over, and what comes late is evidence."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest
from tests.support.outbox import (
    FAST,
    FORGETS,
    Outbox,
    Scripted,
    held_until,
    made,
    outbox,
    scripted,
)
from tests.support.servers import Servers
from tests.support.waiting import comes_true, listening

from projectionist.core.postgres.statements import Statements
from projectionist.outbox.providers import Outcome, Reply, Request
from projectionist.outbox.relay.database_link import DatabaseUnavailable
from projectionist.outbox.relay.intent_store import IntentStore, LeasedIntent

pytestmark = pytest.mark.asyncio


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


async def test_a_relay_that_overslept_writes_two_replies_of_one_attempt(
    harness: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leases anew what it has sent itself: two replies for one attempt wait while another is being written."""
    stub, gate, free = scripted(FORGETS), asyncio.Event(), asyncio.Event()
    settle = IntentStore.settle

    async def settle_when_free(self: IntentStore, *given: Any) -> set[int]:
        await free.wait()
        return await settle(self, *given)

    monkeypatch.setattr(IntentStore, "settle", settle_when_free)
    slept = await harness.want()
    stub.script[slept] = [held_until(gate)]
    async with harness.relaying(made(stub)) as relay:
        await harness.becomes(slept, "started")
        other = await harness.want()
        await harness.becomes(other, "started")
        replies = relay._senders[0]._replies
        await comes_true(lambda: stub.sent[-1].key == other and not replies._waiting)
        await harness.end_leases()
        relay.wake()
        await comes_true(lambda: len(replies._waiting) == 2)
        gate.set()
        await comes_true(lambda: len(replies._waiting) == 3)
        free.set()
        await harness.all_become("sent")
    assert stub.executions == {slept: 1, other: 1}
    assert [a["outcome"] for a in await harness.attempts(slept)] == ["sent"]


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
    assert sum(vars(record)["facts"]["count"] for record in told) == len(keys)
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
            url = harness.settings.postgres.url
            assert url is not None
            async with outbox(url.reveal()) as again:
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
