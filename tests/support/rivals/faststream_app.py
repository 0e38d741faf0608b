"""FastStream's contender: inbox, row and the receipt's job in one hand-written transaction an event, then the ack.

Careful, it keeps the version that an order is at, too, and leaves what comes too early until its turn.
"""

from __future__ import annotations

import asyncio
import json
from typing import cast

import asyncpg
import msgspec
from faststream import AckPolicy, FastStream
from faststream.exceptions import NackMessage
from faststream.nats import JStream, NatsBroker, NatsMessage
from nats.js.api import ConsumerConfig, DeliverPolicy
from pgqueuer import Queries
from tests.support.rivals.ground import ACK_WAIT_S, RETRY_S, RivalGround, told

from projectionist.core.postgres.connections import Connection

TABLES = """
    create table if not exists rival_inbox (id text primary key);
    create table if not exists rival_orders (
        order_id text primary key, version int not null, status text not null default '', cents int not null default 0,
        history jsonb not null default '[]'
    );
"""
CLAIM = "insert into rival_inbox values ($1) on conflict do nothing"
PLACE = "insert into rival_orders (order_id, version) values ($1, 0) on conflict do nothing"
ADVANCE = "update rival_orders set version = $2 where order_id = $1 and version = $2 - 1"
NOTE = """
    update rival_orders
    set history = history || to_jsonb($2::text), status = coalesce($3, status), cents = coalesce($4, cents)
    where order_id = $1
"""
ENQUEUED = "receipt"


class TooEarly(Exception):
    """An event has come before the one that precedes it."""


def jobs(connection: Connection) -> Queries:
    """Return pgqueuer's statements on this connection."""
    return Queries.from_asyncpg_connection(cast("asyncpg.Connection[asyncpg.Record]", connection))


async def settle(connection: Connection, ground: RivalGround, message: NatsMessage) -> None:
    """Settle one event in one transaction."""
    headers, event = message.headers, msgspec.json.decode(message.body)
    order, version = headers["ce-aggregateid"], int(headers["ce-aggregateversion"])
    async with connection.transaction():
        if await connection.execute(CLAIM, headers["ce-id"]) == "INSERT 0 0":
            return
        await connection.execute(PLACE, order)
        if ground.careful and await connection.execute(ADVANCE, order, version) == "UPDATE 0":
            raise TooEarly
        match headers["ce-type"]:
            case "order.placed":
                await connection.execute(NOTE, order, "placed", "placed", event["cents"])
            case "order.noted":
                await connection.execute(NOTE, order, ground.digest(event["text"]), None, None)
            case "order.paid":
                await connection.execute(NOTE, order, "paid", "paid", None)
                job = json.dumps({"order_id": order}).encode()
                await jobs(connection).enqueue(ENQUEUED, job)


async def main() -> None:
    """Consume until the process is ended."""
    ground = told()
    pool = await asyncpg.create_pool(ground.database, min_size=1, max_size=2)
    broker = NatsBroker(ground.nats, logger=None, max_reconnect_attempts=-1, reconnect_time_wait=1)

    @broker.subscriber(
        f"{ground.stream}.order.*",
        stream=JStream(ground.stream, declare=False),
        durable="rival",
        config=ConsumerConfig(deliver_policy=DeliverPolicy.ALL, ack_wait=ACK_WAIT_S),
        ack_policy=AckPolicy.NACK_ON_ERROR,
    )
    async def consume(message: NatsMessage) -> None:
        try:
            async with pool.acquire() as connection:
                await settle(connection, ground, message)
        except Exception as error:
            raise NackMessage(delay=RETRY_S) from error

    await FastStream(broker, logger=None).run()


if __name__ == "__main__":
    asyncio.run(main())
