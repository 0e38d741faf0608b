"""How long it takes from the publishing of one event, on an idle system, until a reader sees its row."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from projectionist.bench.children import BenchError, Child, running
from projectionist.bench.ground import ground as made
from projectionist.bench.load import SOURCE, Load, LoadMessage, messages
from projectionist.bench.trial import caught_up
from projectionist.core.cloudevents import DEFAULTS
from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.bench.ground import Ground
    from projectionist.bench.scene import Scene

EVENTS, UNCOUNTED = 500, 20
"""How many at most, or a tenth of the load; and how many before them, while everything warms up."""
LONGEST_S = 10


class Lone(msgspec.Struct, frozen=True):
    """Milliseconds from publish to visible."""

    p50: float
    p90: float
    p99: float
    events: int


async def lone(ground: Ground, load: Load, arguments: Sequence[str]) -> Lone:
    """Publish events one by one, at uneven intervals, each when the one before it has been seen."""
    async with (
        made(ground.settings) as quiet,
        quiet.scene() as scene,
        running(quiet.settings, scene, arguments) as child,
    ):
        await caught_up(child, scene, quiet.client)
        some = islice(messages(load), UNCOUNTED + max(1, min(EVENTS, load.events // 10)))
        taken = sorted([await _seen(quiet, scene, child, message) for message in some][UNCOUNTED:])
    p50, p90, p99 = (round(taken[int(len(taken) * share)], 2) for share in (0.5, 0.9, 0.99))
    return Lone(p50, p90, p99, len(taken))


async def _seen(quiet: Ground, scene: Scene, child: Child, message: LoadMessage) -> float:
    """Publish one event, look until it is committed, and say how many milliseconds that took."""
    await asyncio.sleep(random.uniform(0.002, 0.02))  # noqa: S311
    statement = Statements("projectionist.bench", scene.schema)["visible"]
    identity = message.headers[DEFAULTS["id"]]
    begun = time.perf_counter()
    await quiet.client.publish(quiet.subject(message), message.body, headers=message.headers)
    while not await quiet.connection.fetchval(statement, scene.consumer, SOURCE, identity):
        child.check()
        if time.perf_counter() - begun > LONGEST_S:
            raise BenchError(f"an event is not visible after {LONGEST_S} s: {child.said()}")
    return (time.perf_counter() - begun) * 1000
