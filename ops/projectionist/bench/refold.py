"""The rebuild's twin: the shortest script that reads the stream, folds it in memory and copies the rows. No guards."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from projectionist.bench import plain
from projectionist.bench.load import PLACED
from projectionist.bench.shop import ORDERS, SCENE
from projectionist.core.nats import connections
from projectionist.core.nats.subject_relations import ALL
from projectionist.core.postgres import connections as db
from projectionist.core.settings.settings import Settings
from projectionist.ops.cli.output import say_json
from projectionist.projections.tables import ddl
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_reader import scan


async def work(settings: Settings) -> None:
    """Do it once, and say how long it took."""
    client = await connections.connect(settings.nats, name="bench refold")
    connection = await db.connect(settings.postgres, application_name="bench refold")
    assert ORDERS.table is not None, "it is a Projection"
    model = ddl.physical(ORDERS.table, settings.postgres.schema, 1)
    await connection.execute(f"create temp table refolded (like {model})")
    began = time.monotonic()
    last = (await api.stream(client, SCENE.stream)).state.last_seq
    rows: dict[str, list[Any]] = {}
    decode = msgspec.json.Decoder().decode
    async for block in scan(client, SCENE.stream, ALL, 1, last):
        for arrival in block:
            event = plain.read(arrival)
            body, key = decode(event.data), event.aggregate[1:]
            if event.kind == PLACED:
                rows[key] = [key, body["customer"], body["email"], body["total_cents"], 0]
            else:
                row = rows[key]
                row[3] = body["total_cents"]
                row[4] += 1
    await connection.copy_records_to_table("refolded", records=rows.values())
    await connection.execute("alter table refolded add primary key (order_id)")
    say_json({"rebuilt": [{"seconds": time.monotonic() - began, "events": last}]})
    await connection.close()
    await client.close()


if __name__ == "__main__":
    plain.main(work)
