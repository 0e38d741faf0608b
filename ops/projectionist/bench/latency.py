"""`bench latency`: from publish to a visible row, and from publish to a called provider, at steady rates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.bench.children import BenchError, Child, running
from projectionist.bench.contenders import Contender, contenders, variants
from projectionist.bench.ground import ground as made
from projectionist.bench.load import SOURCE, Load, messages
from projectionist.bench.trial import caught_up
from projectionist.bench.variants import BenchIntent, BenchTelling
from projectionist.core.cloudevents import DEFAULTS
from projectionist.core.postgres.statements import Statements
from projectionist.ops.cli.output import table
from projectionist.outbox import intent_key

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from projectionist.bench.ground import Ground
    from projectionist.core.settings.settings import Settings

PEER_MOST = 1000
"""The peer gets no more: it would only fall behind."""
PROBES_PER_S = 200
"""So many events a second are watched at most."""
RELAY = ("-m", "projectionist.bench.relay_product", "nats")
LONGEST_S = 20.0
"""An event that has not arrived by then ends the benchmark."""
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}

TITLES = {
    "visible_ms": "product: publish to row visible",
    "faststream_visible_ms": "FastStream, one transaction an event: publish to row visible",
    "called_ms": "product: publish to provider called, through runner and relay",
}

Tell = Callable[[str], None]


class LatencyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The rates at which events are published, and for how long."""

    rates: tuple[int, ...] = (1, 100, 1000, 5000)
    """Events a second."""
    seconds: float = 8.0
    """How long a rate is kept up after its events have begun to count."""
    warm_s: float = 1.5

    def events(self, rate: int) -> int:
        """Return how many events are published at this rate."""
        return max(10, round(rate * (self.seconds + self.warm_s)))

    def counts_from(self, rate: int) -> float:
        """Return the number of the first event that counts."""
        return rate * self.warm_s if rate > 1 else 0


class LatencyResult(msgspec.Struct):
    """Milliseconds by what was watched, by rate, by share; and how many events they come from."""

    found: dict[str, dict[int, dict[str, float]]]
    skipped: dict[str, str]


class Watch:
    """The events that are waited for, and how long each took."""

    def __init__(self) -> None:
        self.waiting: dict[str, float] = {}
        self.taken: list[float] = []

    def seen(self, name: str) -> None:
        """Note that an event has arrived."""
        if (begun := self.waiting.pop(name, None)) is not None:
            self.taken.append((time.perf_counter() - begun) * 1000)


async def latency(settings: Settings, load: Load, plan: LatencyPlan, tell: Tell) -> LatencyResult:
    """Measure; `tell` hears what is being done."""
    part, skipped = contenders(settings.nats, past=0)
    measured = LatencyResult({name: {} for name in TITLES}, skipped)
    for rate in plan.rates:
        shown = await _visible(settings, load, part["product"], plan, rate)
        measured.found["visible_ms"][rate] = shown
        tell(f"{rate:,} events/s: visible after {shown['p50']:.1f} ms, p99 {shown['p99']:.1f} ms")
        if "faststream" in part and rate <= PEER_MOST:
            measured.found["faststream_visible_ms"][rate] = await _visible(
                settings, load, part["faststream"], plan, rate
            )
        called = measured.found["called_ms"][rate] = await _called(settings, load, plan, rate)
        tell(f"{rate:,} events/s: provider called after {called['p50']:.1f} ms, p99 {called['p99']:.1f} ms")
    return measured


async def _visible(
    settings: Settings, load: Load, one: Contender, plan: LatencyPlan, rate: int
) -> dict[str, float]:
    async with (
        made(settings) as ground,
        ground.scene() as scene,
        running(settings, scene, one.arguments) as child,
    ):
        await caught_up(child, scene, ground.client)
        statement = Statements("projectionist.bench", scene.schema)["visible_of"]

        async def look(watch: Watch) -> None:
            """Ask again and again which of them are committed."""
            while True:
                if watch.waiting:
                    names = list(watch.waiting)
                    for row in await ground.connection.fetch(statement, scene.consumer, SOURCE, names):
                        watch.seen(row["id"])
                await asyncio.sleep(0.0002)

        return await _watched(ground, (child,), load, plan, rate, look, str)


async def _called(settings: Settings, load: Load, plan: LatencyPlan, rate: int) -> dict[str, float]:
    app = variants()["intents"]
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(made(settings))
        scene = await stack.enter_async_context(ground.scene(app=app.app))
        child = await stack.enter_async_context(running(settings, scene, app.arguments))
        relay = await stack.enter_async_context(running(settings, scene, RELAY, name="relay"))
        await caught_up(child, scene, ground.client)

        async def look(watch: Watch) -> None:
            """Hear what the relay publishes, under the intent's key."""

            async def heard(message: Msg) -> None:
                watch.seen((message.headers or {}).get("Nats-Msg-Id", ""))

            await ground.client.subscribe(ground.told_subjects, cb=heard)
            await asyncio.Event().wait()

        return await _watched(ground, (child, relay), load, plan, rate, look, _told_key)


def _told_key(identity: str) -> str:
    return intent_key(BenchTelling.__name__, SOURCE, identity, BenchIntent.__name__)


async def _watched(
    ground: Ground,
    children: Sequence[Child],
    load: Load,
    plan: LatencyPlan,
    rate: int,
    look: Callable[[Watch], Awaitable[None]],
    name_of: Callable[[str], str],
) -> dict[str, float]:
    """Publish at a steady rate, and watch some of the events arrive."""
    watch = Watch()
    looking = asyncio.ensure_future(look(watch))
    try:
        some = msgspec.structs.replace(load, events=plan.events(rate))
        await _publish(ground, children, some, rate, plan.counts_from(rate), watch, name_of)
        deadline = time.monotonic() + LONGEST_S
        while watch.waiting:
            _check(children)
            if looking.done():
                looking.result()
            if time.monotonic() > deadline:
                said = "\n".join(child.said() for child in children)
                raise BenchError(f"{len(watch.waiting)} events did not arrive in {LONGEST_S:.0f} s: {said}")
            await asyncio.sleep(0.01)
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    return figures(watch.taken)


def _check(children: Sequence[Child]) -> None:
    for child in children:
        child.check()


async def _publish(
    ground: Ground,
    children: Sequence[Child],
    load: Load,
    rate: int,
    counts_from: float,
    watch: Watch,
    name_of: Callable[[str], str],
) -> None:
    every, begun = max(1, rate // PROBES_PER_S), time.perf_counter()
    for number, message in enumerate(messages(load)):
        due = begun + number / rate
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        if number % every == 0 and number >= counts_from:
            watch.waiting[name_of(message.headers[DEFAULTS["id"]])] = time.perf_counter()
        await ground.client.publish(ground.subject(message), message.body, headers=message.headers)
        if number % 100 == 0:
            _check(children)
            await asyncio.sleep(0)
    await ground.client.flush()


def figures(taken: Sequence[float]) -> dict[str, float]:
    """Shares of what was measured; each is one of the values."""
    ranked = sorted(taken)
    found = {
        name: round(ranked[min(len(ranked) - 1, int(len(ranked) * share))], 2)
        for name, share in SHARES.items()
    }
    return found | {"events": len(ranked)}


def document(measured: LatencyResult) -> dict[str, Any]:
    """Return everything, for programs: `latency.visible_ms.{rate}.{p50,p90,p99,p999}`."""
    found: dict[str, Any] = {
        name: {str(rate): shares for rate, shares in rates.items()} for name, rates in measured.found.items()
    }
    return {"latency": found | {"skipped": measured.skipped}}


def text(measured: LatencyResult) -> str:
    """Return everything, for people."""
    lines: list[tuple[str, ...]] = [("events/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "watched", "")]
    for name, rates in measured.found.items():
        for rate, shares in rates.items():
            values = (f"{shares[share]:.1f}" for share in SHARES)
            lines.append((f"{rate:,}", *values, f"{shares['events']:,.0f}", TITLES[name]))
    return "\n".join(
        (
            table(lines),
            *(f"{name}: left out, {why}" for name, why in measured.skipped.items()),
            "",
        )
    )
