"""The relay's twin: lease a batch, publish it, settle it. What one would write by hand in an afternoon.

It knows no order, no attempts, no leases that end, no frozen bytes, no circuit and no answer but a good one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import nats

from projectionist.bench import plain
from projectionist.bench.relay_app import SCENE
from projectionist.core.postgres import connections
from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings

BATCH = 500


async def relay(settings: Settings) -> None:
    """Send all there is, then wait to be ended."""
    connection = await connections.connect(settings.postgres, application_name="bench twin")
    sql = Statements("projectionist.bench", SCENE.schema)
    client = await nats.connect([url.reveal() for url in settings.nats.url])
    stream = client.jetstream()
    while rows := await connection.fetch(sql["relay_twin_lease"], uuid4(), BATCH):
        acks = [
            await stream.publish_async(
                f"{SCENE.stream}.told.{msgspec.json.decode(row['body'])['order']}",
                row["body"],
                headers={"Nats-Msg-Id": row["key"]},
            )
            for row in rows
        ]
        found = await asyncio.gather(*acks)
        ids = [f"{ack.stream}:{ack.seq}" for ack in found]
        await connection.execute(sql["relay_twin_settle"], [row["seq"] for row in rows], ids)
    await asyncio.Event().wait()


if __name__ == "__main__":
    plain.main(relay)
