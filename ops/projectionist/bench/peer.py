"""A FastStream consumer that is exactly as careful: inbox, position and row in one transaction an event, then the ack.

Its subscriber takes one event after the other, as it comes, which is FastStream's default. With more workers, and
with a pull subscription of more than one, it handles two events of one order at once; pulling one by one is slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
from faststream import AckPolicy, FastStream
from faststream.nats import JStream, NatsBroker, NatsMessage
from nats.js.api import ConsumerConfig, DeliverPolicy

from projectionist.bench import plain
from projectionist.bench.careful import CarefulHandler
from projectionist.bench.shop import SCENE
from projectionist.core.cloudevents import DEFAULTS
from projectionist.core.postgres import connections

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings


def read(message: NatsMessage) -> plain.PlainRead:
    """Return the same as `plain.read`, from what FastStream hands over."""
    headers, raw = message.headers, message.raw_message
    assert not isinstance(raw, list)
    return plain.PlainRead(
        source=headers[DEFAULTS["source"]],
        id=headers[DEFAULTS["id"]],
        kind=headers[DEFAULTS["type"]],
        aggregate=f"/{raw.subject.rpartition('.')[2]}",
        version=int(headers[DEFAULTS["version"]]),
        data=raw.data,
        seq=raw.metadata.sequence.stream,
        subject=raw.subject,
    )


async def work(settings: Settings) -> None:
    """Consume until the process is ended."""
    schema = settings.postgres.schema
    connection: asyncpg.Connection[asyncpg.Record] = await connections.connect(
        settings.postgres, application_name="bench peer"
    )
    handler = CarefulHandler(connection, schema, SCENE.consumer)
    broker = NatsBroker([url.reveal() for url in settings.nats.url], logger=None)

    @broker.subscriber(
        f"{SCENE.stream}.order.*",
        stream=JStream(SCENE.stream, declare=False),
        durable=SCENE.durable,
        config=ConsumerConfig(deliver_policy=DeliverPolicy.ALL, ack_wait=plain.ACK_WAIT_S),
        ack_policy=AckPolicy.NACK_ON_ERROR,
    )
    async def consume(message: NatsMessage) -> None:
        await handler.settle(read(message))

    await FastStream(broker, logger=None).run()


if __name__ == "__main__":
    plain.main(work)
