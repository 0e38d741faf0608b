"""One transaction an event over the product's own source: alone, or several at once, never two of one order."""

from __future__ import annotations

import asyncio
import sys
from zlib import crc32

from projectionist.bench import plain
from projectionist.bench.careful import CarefulHandler
from projectionist.bench.shop import SCENE
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.postgres import connections
from projectionist.core.settings.settings import Settings


async def work(settings: Settings) -> None:
    """Settle events until the process is ended; the only argument says how many at once."""
    source, limits = await plain.source(settings), settings.batch
    lanes = [asyncio.Queue[Arrival]() for _ in range(int(sys.argv[1]))]

    async def settle(lane: asyncio.Queue[Arrival]) -> None:
        connection = await connections.connect(settings.postgres, application_name="bench one")
        handler = CarefulHandler(connection, settings.postgres.schema, SCENE.consumer)
        while True:
            arrival = await lane.get()
            await handler.settle(plain.read(arrival))
            source.ack([arrival])
            lane.task_done()

    await source.open()
    async with asyncio.TaskGroup() as tasks:
        for lane in lanes:
            tasks.create_task(settle(lane))
        while True:
            for arrival in await source.take(limits.max_rows, limits.max_bytes, limits.max_ms / 1000):
                lanes[crc32(arrival.subject.encode()) % len(lanes)].put_nowait(arrival)
            for lane in lanes:
                await lane.join()


if __name__ == "__main__":
    plain.main(work)
