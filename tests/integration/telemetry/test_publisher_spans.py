"""The producer's side of a trace: every way to publish makes one span an event, whose context the event carries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nats.aio.client import Client
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderPlaced
from tests.support.spans import Kept, attributes
from tests.support.waiting import HANG_S

from projectionist.core.telemetry import tracing
from projectionist.outbox.publishing.draft import Draft, PublishError
from projectionist.outbox.publishing.publisher import Publisher

pytestmark = pytest.mark.asyncio

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@asynccontextmanager
async def publishing(live: ConsumerHarness) -> AsyncIterator[Publisher]:
    subject = live.stream.subject("order", "{aggregate}")
    async with Publisher(live.nats, source="shop", subject=subject) as publisher:
        yield publisher


def draft(publisher: Publisher, number: int, traceparent: str | None = None) -> Draft:
    made = publisher.draft(OrderPlaced("ann", 1), aggregate=f"order/o{number}", version=1, id=f"e{number}")
    if traceparent is not None:
        made.headers["traceparent"] = traceparent
    return made


async def stored(client: Client, stream: str, seq: int) -> dict[str, str]:
    found = await client.jetstream(timeout=HANG_S).get_msg(stream, seq=seq)
    return found.headers or {}


async def test_a_draft_is_sent_in_the_trace_in_which_it_was_made(live: ConsumerHarness, kept: Kept) -> None:
    async with publishing(live) as publisher:
        with tracing.tracer().start_as_current_span("checkout") as checkout:
            made = draft(publisher, 1)
        await publisher.send(made)
    (span,) = kept.named("send")
    context = checkout.get_span_context()
    assert span.parent is not None
    assert span.context is not None
    assert (span.context.trace_id, span.parent.span_id) == (context.trace_id, context.span_id)
    assert (await stored(live.nats, live.stream.name, 1))["traceparent"][:52] == tracing.written(
        span.context
    )[:52]
    assert attributes(span) == {
        "messaging.system": "nats",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.template": live.stream.subject("order", "{aggregate}"),
        "messaging.destination.name": live.stream.name,
        "messaging.message.id": "e1",
        "messaging.client.id": str(live.nats.client_id),
        "server.address": "127.0.0.1",
        "server.port": attributes(span)["server.port"],
    }
    live.tampered = True


async def test_of_many_each_event_has_a_span_of_its_own_and_carries_its_context(
    live: ConsumerHarness, kept: Kept
) -> None:
    async with publishing(live) as publisher:
        with tracing.tracer().start_as_current_span("import"):
            drafts = [draft(publisher, number) for number in range(5)]
        published = await publisher.publish_many(drafts)
    spans = {attributes(one)["messaging.message.id"]: one.context for one in kept.named("send")}
    assert sorted(map(str, spans)) == [f"e{number}" for number in range(5)]
    for number, one in enumerate(published):
        context = spans[f"e{number}"]
        assert context is not None
        carried = (await stored(live.nats, live.stream.name, one.sequence))["traceparent"]
        assert carried[:52] == tracing.written(context)[:52]
    live.tampered = True


async def test_a_draft_of_a_trace_that_is_not_sampled_is_sent_as_it_is(
    live: ConsumerHarness, kept: Kept
) -> None:
    unsampled = f"00-{TRACE}-{PARENT}-00"
    async with publishing(live) as publisher:
        await publisher.send(draft(publisher, 1, unsampled))
    assert kept.named("send") == []
    assert (await stored(live.nats, live.stream.name, 1))["traceparent"] == unsampled
    live.tampered = True


async def test_a_malformed_context_in_a_draft_begins_a_trace_of_its_own(
    live: ConsumerHarness, kept: Kept
) -> None:
    async with publishing(live) as publisher:
        await publisher.send(draft(publisher, 1, "00-nonsense"))
    (span,) = kept.named("send")
    assert span.parent is None
    live.tampered = True


async def test_what_was_not_published_is_a_failed_span_without_the_errors_text(
    live: ConsumerHarness, kept: Kept
) -> None:
    publisher = Publisher(live.nats, source="shop", subject=live.stream.subject("order", "{aggregate}"))
    with pytest.raises(PublishError, match="not open"):
        await publisher.send(draft(publisher, 1))
    (span,) = kept.named("send")
    assert attributes(span)["error.type"] == "PublishError"
    assert (span.status.description, span.events) == (None, ())
