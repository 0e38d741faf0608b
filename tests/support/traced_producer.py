"""A producer in a process of its own, under a trace: `python -m tests.support.traced_producer VERSION…`."""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec
from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced

from projectionist.core.nats import connections
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Telemetry
from projectionist.core.telemetry import tracing
from projectionist.core.telemetry.otel_setup import exporting
from projectionist.outbox.publishing.publisher import Publisher

EVENTS = {1: OrderPlaced("ann", 1), 2: OrderNoted("two"), 3: OrderPaid(3)}


async def _publish(versions: list[int]) -> None:
    client = await connections.connect(
        Nats(url=(Url(os.environ["PROJECTIONIST_NATS__URL"]),)), name="producer"
    )
    subject = Stream(os.environ["LAB_STREAM"]).subject("order", "{aggregate}")
    with tracing.tracer().start_as_current_span("checkout"):
        async with Publisher(client, source="shop", subject=subject) as publisher:
            for version in versions:
                draft = publisher.draft(
                    EVENTS[version],
                    aggregate="order/o1",
                    version=version,
                    id=f"o1:{version}",
                )
                headers = {**draft.headers, "baggage": "tenant=acme,secret=s3cr3t"}
                await publisher.send(msgspec.structs.replace(draft, headers=headers))
    await client.close()


if __name__ == "__main__":
    with exporting(Telemetry(endpoint=Url(os.environ["PROJECTIONIST_TELEMETRY__ENDPOINT"])), "producer"):
        asyncio.run(_publish([int(word) for word in sys.argv[1:]]))
