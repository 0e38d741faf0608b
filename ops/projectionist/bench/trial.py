"""One run of one contender, measured from outside, in the same way for all: by what the broker has seen acked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
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


class Steady(msgspec.Struct, frozen=True):
    """Microseconds of processor time an event, from the first sight of the durable to the last ack: no start of a
    process in it. None where it cannot be known."""

    client: float | None
    postgres: float | None
    nats: float | None

    @property
    def total(self) -> float | None:
        """Return that of all together."""
        parts = self.client, self.postgres, self.nats
        return None if None in parts else sum(part for part in parts if part is not None)


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
    steady: Steady | None = None

    @property
    def rate(self) -> float:
        """Return events a second."""
        return self.events / self.seconds


class Reading(msgspec.Struct, frozen=True):
    """Totals at one moment of a run."""

    acked: int
    client_cpu_s: float
    used: Used


class _Floor(msgspec.Struct):
    last_active: datetime | None = None


class _Durable(msgspec.Struct):
    created: datetime
    ack_floor: _Floor
    num_pending: int
    num_ack_pending: int


async def run(ground: Ground, load: Load, one: Contender) -> Cost:
    """Let a contender settle its share of the load, which is in the stream, on tables of its own."""
    async with ground.scene(
        app=one.app, past=one.past, random_ids=load.random_ids, found_in=one.found_in
    ) as scene:
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
    began: list[Reading] = []
    environment = {**one.environment, **one.found_in}
    async with (
        ground.meter.over(found.append),
        running(ground.settings, scene, one.arguments, environment) as child,
    ):

        async def begin(acked: int) -> None:
            began.append(await _reading(ground, child, acked))

        acked, seconds = await _watched(
            child, scene, ground.client, messages, stored, patience_s=patience_s, begin=begin
        )
        if one.later:
            seconds = await _settled(ground, child, scene)
        steady = steady_cost(began[0], await _reading(ground, child, acked))
    return Cost(
        events=acked,
        seconds=seconds,
        cpu_s=child.cpu_s,
        rss_mb=child.rss_mb,
        used=found[0],
        steady=steady,
    )


async def _reading(ground: Ground, child: Child, acked: int) -> Reading:
    return Reading(acked, child.cpu_so_far_s, await ground.meter.read())


def steady_cost(began: Reading, ended: Reading) -> Steady | None:
    """Return what an event took between two readings; None where all were settled before the first. Pure."""
    events = ended.acked - began.acked
    if events <= 0:
        return None
    used = ended.used.since(began.used)
    each = [_us(seconds, events) for seconds in (used.postgres_cpu_s, used.nats_cpu_s)]
    return Steady(_us((ended.client_cpu_s - began.client_cpu_s) or None, events), *each)


def _us(seconds: float | None, events: int) -> float | None:
    return None if seconds is None else round(seconds * 1_000_000 / events, 2)


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
    begin: Callable[[int], Awaitable[None]] | None = None,
) -> tuple[int, float]:
    """Return how many messages it had acked on each durable when they were enough, and the seconds until the last.
    `begin` is told how many were acked at the first sight of its durables."""
    best, deadline = -1, time.monotonic() + patience_s
    while time.monotonic() < deadline:
        child.check()
        found = [
            one for name in scene.durables if (one := await _durable(scene.stream, name, client)) is not None
        ]
        acked = min(_acked(one, stored) for one in found) if len(found) == len(scene.durables) else -1
        if begin is not None and acked >= 0:
            await begin(acked)
            begin = None
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
