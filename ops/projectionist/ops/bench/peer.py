"""A FastStream consumer that is exactly as careful: inbox, position and row in one transaction an event, then the ack.

Its subscriber takes one event after the other, as it comes, which is FastStream's default. With more workers, and
with a pull subscription of more than one, it handles two events of one order at once; pulling one by one is slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import msgspec
from faststream import AckPolicy, FastStream
from faststream.nats import JStream, NatsBroker, NatsMessage
from nats.js.api import ConsumerConfig, DeliverPolicy

from projectionist.core import db
from projectionist.core.headers import DEFAULTS
from projectionist.core.sql import Statements
from projectionist.ops.bench import plain
from projectionist.ops.bench.load import PLACED
from projectionist.ops.bench.shop import ORDERS, SCENE, OrderChanged, OrderPlaced
from projectionist.projections.ddl import physical

if TYPE_CHECKING:
    from projectionist.core.settings import Settings

_placed, _changed = msgspec.json.Decoder(OrderPlaced), msgspec.json.Decoder(OrderChanged)


class Handler:
    """What a careful user would write into the subscriber's function."""

    def __init__(self, connection: db.Connection, schema: str, number: int) -> None:
        self._connection, self._number = connection, number
        self._sql = Statements("projectionist.ops.bench", schema)
        table = ORDERS.table
        assert table is not None
        orders = physical(table, schema, generation=1)
        # The table is made from a class, so no migration knows it, and no file of SQL can name it.
        self._place = (
            f"insert into {orders} (order_id, customer, email, total_cents) values ($1, $2, $3, $4) "
            "on conflict (order_id) do update "
            "set customer = excluded.customer, email = excluded.email, total_cents = excluded.total_cents"
        )
        self._change = f"update {orders} set total_cents = $2, changes = changes + 1 where order_id = $1"

    async def settle(self, event: plain.Read) -> None:
        """One event, one transaction."""
        run, number = self._connection.execute, self._number
        async with self._connection.transaction():
            claimed = await run(
                *(self._sql["one_claim"], number, 1, 1, event.source, event.id, event.seq, event.subject),
                *(event.kind, event.aggregate, event.version, plain.hashed(event)),
            )
            if claimed == "INSERT 0 0":
                return
            moved = await run(self._sql["one_advance"], number, event.aggregate, event.version, event.seq)
            assert moved == "INSERT 0 1", "no gap here"
            order = event.aggregate[1:]
            if event.kind == PLACED:
                placed = _placed.decode(event.data)
                await run(self._place, order, placed.customer, placed.email, placed.total_cents)
            else:
                await run(self._change, order, _changed.decode(event.data).total_cents)


def read(message: NatsMessage) -> plain.Read:
    """The same as `plain.read`, from what FastStream hands over."""
    headers, raw = message.headers, message.raw_message
    assert not isinstance(raw, list)
    return plain.Read(
        headers[DEFAULTS["source"]],
        headers[DEFAULTS["id"]],
        headers[DEFAULTS["type"]],
        f"/{raw.subject.rpartition('.')[2]}",
        int(headers[DEFAULTS["version"]]),
        raw.data,
        raw.metadata.sequence.stream,
        raw.subject,
    )


async def work(settings: Settings) -> None:
    """Consume until the process is ended."""
    schema = settings.postgres.schema
    connection: asyncpg.Connection[asyncpg.Record] = await db.connect(
        settings.postgres, application_name="bench peer"
    )
    handler = Handler(connection, schema, SCENE.consumer)
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
