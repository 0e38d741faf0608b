"""A consumer that is started before its stream exists waits, and what then comes is new to it."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Servers
from tests.support.waiting import listening

from projectionist.outbox import Intent
from projectionist.projections import Event, Reactor, on

pytestmark = pytest.mark.asyncio


class Placed(Event, type="order.placed"):
    """Something to react to."""


class Receipt(Intent, provider="email"):
    """What the reaction is."""

    to: str


async def test_events_of_a_stream_made_after_the_first_run_are_not_silent(
    live: ConsumerHarness, servers: Servers
) -> None:
    class Mailer(Reactor, stream=live.stream.name, subjects=live.stream.subject("order", "{aggregate}")):
        """With effects="now", the default."""

        @on(Placed)
        def placed(self, event: Placed) -> Receipt:
            return Receipt(to="ann")

    await live.migrate(Mailer)
    servers.delete_stream(live.stream)

    with listening() as heard:
        async with live.running(Mailer):
            await heard.wait("worker.waiting")
            await live.nats.jetstream().add_stream(name=live.stream.name, subjects=[live.stream.subjects])
            await live.publish(Placed(), "o1", 1)
            await live.settled(Mailer)

    assert await inspection.count_intents(live) == 1
