"""One run of one contender, measured from outside, in the same way for all: by what the broker has seen acked."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from nats.errors import Error as NatsError

from projectionist.bench.children import LOOK_S, BenchError, Child, running
from projectionist.bench.meters import Used
from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.bench.contenders import Contender
    from projectionist.bench.ground import Ground
    from projectionist.bench.load import Load
    from projectionist.bench.scene import Scene

LONG_S = 5
"""A run that lasts so long must have given retention its turn."""
PATIENCE_S = 30
"""How long a contender may stand still before the benchmark gives up."""


class Cost(msgspec.Struct, frozen=True):
    """What a run took."""

    events: int
    seconds: float
    """From the creation of the durable to its last ack, both by the broker's clock: no start of a process in it."""
    cpu_s: float
    """Of the process alone, its start included."""
    rss_mb: float
    used: Used | None = None
    """By the servers."""

    @property
    def rate(self) -> float:
        """Return events a second."""
        return self.events / self.seconds


class _Floor(msgspec.Struct):
    last_active: datetime | None = None


class _Durable(msgspec.Struct):
    created: datetime
    ack_floor: _Floor
    num_pending: int
    num_ack_pending: int


async def run(ground: Ground, load: Load, one: Contender) -> Cost:
    """Let a contender settle its share of the load, which is in the stream, on tables of its own."""
    async with ground.scene(app=one.app, past=one.past, random_ids=load.random_ids) as scene:
        wanted = one.messages(load)
        cost = await trial(ground, scene, one, wanted, load.messages)
        settled = await ground.connection.fetchval(Statements("projectionist.bench", scene.schema)["settled"])
        left = (
            await ground.connection.fetchval(Statements("projectionist.bench", scene.schema)["past_left"])
            if one.purges
            else 0
        )
    if one.purges and left == one.past and cost.seconds > LONG_S:
        raise BenchError(f"{one.title}: nothing was removed")
    if one.keeps and settled < min(wanted, load.events):
        raise BenchError(f"{one.title} acked {cost.events} messages and keeps {settled}")
    return cost


async def trial(
    ground: Ground,
    scene: Scene,
    one: Contender,
    messages: int,
    stored: int,
    *,
    patience_s: float = PATIENCE_S,
) -> Cost:
    """Run a contender until it has acked `messages` of those `stored` in the stream."""
    found: list[Used] = []
    async with (
        ground.meter.over(found.append),
        running(ground.settings, scene, one.arguments, one.environment) as child,
    ):
        acked, seconds = await _watched(child, scene, ground.client, messages, stored, patience_s=patience_s)
        if one.later:
            seconds = await _settled(ground, child, scene)
    return Cost(acked, seconds, child.cpu_s, child.rss_mb, found[0])


async def caught_up(child: Child, scene: Scene, client: Client) -> None:
    """Return when a contender has its durables and nothing to do."""
    await _watched(child, scene, client, 0, 0)


async def _watched(
    child: Child,
    scene: Scene,
    client: Client,
    messages: int,
    stored: int,
    *,
    patience_s: float = PATIENCE_S,
) -> tuple[int, float]:
    """Return how many messages it had acked on each durable when they were enough, and the seconds until the last."""
    best, deadline = -1, time.monotonic() + patience_s
    while time.monotonic() < deadline:
        child.check()
        found = [
            one for name in scene.durables if (one := await _durable(scene.stream, name, client)) is not None
        ]
        acked = min(_acked(one, stored) for one in found) if len(found) == len(scene.durables) else -1
        if acked >= messages and found:
            last = max(one.ack_floor.last_active or one.created for one in found)
            return acked, (last - min(one.created for one in found)).total_seconds()
        if acked > best:
            best, deadline = acked, time.monotonic() + patience_s
        await asyncio.sleep(LOOK_S)
    raise BenchError(f"a contender stands still after {max(best, 0)} events: {child.said()}")


async def _settled(ground: Ground, child: Child, scene: Scene) -> float:
    """Wait until what was acked is settled too; the seconds since the durable was made."""
    waits = Statements("projectionist.bench", scene.schema)["waits"]
    deadline = time.monotonic() + 10 * PATIENCE_S
    while await ground.connection.fetchval(waits):
        child.check()
        if time.monotonic() > deadline:
            raise BenchError(f"a contender does not settle what it has acked: {child.said()}")
        await asyncio.sleep(LOOK_S)
    over = datetime.now(UTC)
    durable = await _durable(scene.stream, scene.durable, ground.client)
    assert durable is not None, "it was there a moment ago"
    return (over - durable.created).total_seconds()


def _acked(durable: _Durable, stored: int) -> int:
    """Return what is acked: a durable that was made this moment says that nothing is pending, before it has looked."""
    began = durable.ack_floor.last_active is not None or durable.num_pending or durable.num_ack_pending
    return stored - durable.num_pending - durable.num_ack_pending if began else 0


async def _durable(stream: str, name: str, client: Client) -> _Durable | None:
    """Return the durable as the broker describes it; None before there is one."""
    try:
        answer = (await client.request(f"$JS.API.CONSUMER.INFO.{stream}.{name}", timeout=5)).data
    except NatsError as error:
        raise BenchError(f"the broker does not tell how far a contender is: {error}") from error
    try:
        return msgspec.json.decode(answer, type=_Durable)
    except msgspec.ValidationError:  # an error instead: no such durable
        return None
