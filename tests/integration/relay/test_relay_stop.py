"""A relay that is stopped, and providers that break: what has begun is finished or its outcome unknown."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.outbox import (
    FORGETS,
    Outbox,
    Scripted,
    held_until,
    made,
    scripted,
)

from projectionist.outbox.providers import Reply, Request

pytestmark = pytest.mark.asyncio


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
