"""How long it takes from the publishing of one event, on an idle system, until a reader sees its row."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.headers import DEFAULTS
from projectionist.core.sql import Statements
from projectionist.ops.bench.children import BenchError, running
from projectionist.ops.bench.ground import ground as made
from projectionist.ops.bench.load import SOURCE, Load, messages
from projectionist.ops.bench.trial import caught_up

if TYPE_CHECKING:
    from projectionist.ops.bench.ground import Ground

EVENTS, UNCOUNTED = 500, 20
LONGEST_S = 10


class Lone(msgspec.Struct, frozen=True):
    """Milliseconds from publish to visible."""

    p50: float
    p90: float
    p99: float
    events: int


async def lone(ground: Ground, load: Load, arguments: Sequence[str]) -> Lone:
    """Publish events one by one, at uneven intervals, each when the one before it has been seen."""
    async with made(ground.settings) as quiet, quiet.scene() as scene:
        async with running(quiet.settings, scene, arguments) as child:
            await caught_up(child, scene, quiet.client)
            sql = Statements("projectionist.ops.bench", scene.schema)
            visible = await quiet.connection.prepare(sql["visible"])
            taken: list[float] = []
            for message in islice(messages(load), UNCOUNTED + min(EVENTS, load.events)):
                await asyncio.sleep(random.uniform(0.002, 0.02))  # noqa: S311
                begun = time.perf_counter()
                await quiet.client.publish(quiet.subject(message), message.body, headers=message.headers)
                while not await visible.fetchval(scene.consumer, SOURCE, message.headers[DEFAULTS["id"]]):
                    child.check()
                    if time.perf_counter() - begun > LONGEST_S:
                        raise BenchError(f"an event is not visible after {LONGEST_S} s")
                taken.append((time.perf_counter() - begun) * 1000)
    taken = sorted(taken[UNCOUNTED:])
    return Lone(*(taken[int(len(taken) * share)] for share in (0.5, 0.9, 0.99)), len(taken))
