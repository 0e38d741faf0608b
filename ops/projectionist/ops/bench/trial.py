"""One run of one contender, measured from outside, in the same way for all: by what the broker has seen acked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from nats.errors import Error as NatsError

from projectionist.ops.bench.children import LOOK_S, BenchError, Child, running

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings import Settings
    from projectionist.ops.bench.scene import Scene

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

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


class _Floor(msgspec.Struct):
    last_active: datetime | None = None


class _Durable(msgspec.Struct):
    created: datetime
    ack_floor: _Floor
    num_pending: int
    num_ack_pending: int


async def trial(
    settings: Settings, scene: Scene, client: Client, arguments: Sequence[str], events: int, stored: int
) -> Cost:
    """Run a contender until it has acked `events` of those `stored` in the stream."""
    async with running(settings, scene, arguments) as child:
        acked, seconds = await _watched(child, scene, client, events, stored)
    return Cost(acked, seconds, child.cpu_s, child.rss_mb)


async def caught_up(child: Child, scene: Scene, client: Client) -> None:
    """Return when a contender has its durable and nothing to do."""
    await _watched(child, scene, client, 0, 0)


async def _watched(child: Child, scene: Scene, client: Client, events: int, stored: int) -> tuple[int, float]:
    """How many events it had acked when they were enough, and the seconds until the last of them."""
    best, deadline = -1, time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        child.check()
        durable = await _durable(scene, client)
        acked = -1 if durable is None else _acked(durable, stored)
        if durable is not None and acked >= events:
            until = durable.ack_floor.last_active or durable.created
            return acked, (until - durable.created).total_seconds()
        if acked > best:
            best, deadline = acked, time.monotonic() + PATIENCE_S
        await asyncio.sleep(LOOK_S)
    raise BenchError(f"a contender stands still after {max(best, 0)} events: {child.said()}")


def _acked(durable: _Durable, stored: int) -> int:
    """A durable that was made this moment says that nothing is pending, before it has looked."""
    began = durable.ack_floor.last_active is not None or durable.num_pending or durable.num_ack_pending
    return stored - durable.num_pending - durable.num_ack_pending if began else 0


async def _durable(scene: Scene, client: Client) -> _Durable | None:
    """The durable as the broker describes it; None before there is one."""
    subject = f"$JS.API.CONSUMER.INFO.{scene.stream}.{scene.durable}"
    try:
        answer = (await client.request(subject, timeout=5)).data
    except NatsError as error:
        raise BenchError(f"the broker does not tell how far a contender is: {error}") from error
    try:
        return msgspec.json.decode(answer, type=_Durable)
    except msgspec.ValidationError:  # an error instead: no such durable
        return None
