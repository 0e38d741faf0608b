"""`bench live`: the product beside its twin, the bare drain and peers, in rounds, on one stream; and its variants."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec

from projectionist.bench.contenders import PRODUCT, Contender, contenders, tracing, variants
from projectionist.bench.ground import ground as made
from projectionist.bench.lone import Lone, lone
from projectionist.bench.stub import stub
from projectionist.bench.trial import Cost, run, trial

if TYPE_CHECKING:
    from projectionist.bench.ground import Ground
    from projectionist.bench.load import Load
    from projectionist.core.settings.settings import Settings
    from projectionist.ops.embedded import Embedded

VARIED_SHARE = 4
"""A variant gets one event of so many, over one aggregate of so many."""
TRACED_ROUNDS = 2
"""What tracing costs is a few hundredths, and so is the noise of a round: so many times the rounds, on all events."""
COUNTED = 20_000
"""On how many events at most statements are counted."""

Tell = Callable[[str], None]
Placed = tuple["Ground", "Load", Contender]
"""A contender, and the stream and the load it gets."""


class Rounds(msgspec.Struct, frozen=True):
    """What each contender took, round by round."""

    titles: dict[str, str]
    costs: dict[str, list[Cost]]

    def ratios(self, name: str, other: str) -> list[float]:
        """Return the rate of one by that of another in the same round; empty where one of them did not take part."""
        pairs = zip(self.costs.get(name, ()), self.costs.get(other, ()), strict=False)
        return [one.rate / two.rate for one, two in pairs]


class LiveFigures(msgspec.Struct):
    """What was measured."""

    rounds: Rounds
    skipped: dict[str, str]
    lone: Lone
    statements: dict[str, float]
    """How many statements 1,000 events took; empty where the server does not tell."""
    varied: Rounds | None = None
    traced: Rounds | None = None


async def live(ground: Ground, load: Load, repeats: int, past: int, tell: Tell) -> LiveFigures:
    """Measure; `tell` hears what is being done."""
    part, skipped = contenders(ground.settings.nats, past)
    tell(f"publishing {load.events:,} events")
    await ground.publish(load)
    rounds = await rounds_of({name: (ground, load, one) for name, one in part.items()}, repeats, tell)
    tell("statements")
    statements = {
        name: count for name in ("product", "twin") if (count := await _counted(ground, load, part[name]))
    }
    tell("lone events")
    return LiveFigures(
        rounds=rounds, skipped=skipped, lone=await lone(ground, load, PRODUCT), statements=statements
    )


async def varied(
    settings: Settings, embedded: Embedded | None, load: Load, repeats: int, tell: Tell
) -> Rounds:
    """Measure the product's variants, on fewer events."""
    fewer = msgspec.structs.replace(
        load,
        events=max(1000, load.events // VARIED_SHARE),
        aggregates=max(100, load.aggregates // VARIED_SHARE),
    )
    async with stub() as collector, AsyncExitStack() as stack:
        part = await _placed(stack, variants(collector), fewer, (settings, embedded), tell)
        return await rounds_of(part, repeats, tell)


async def traced(
    settings: Settings, embedded: Embedded | None, load: Load, repeats: int, tell: Tell
) -> Rounds:
    """Measure what tracing costs."""
    async with stub() as collector, AsyncExitStack() as stack:
        part = await _placed(stack, tracing(collector), load, (settings, embedded), tell)
        return await rounds_of(part, repeats * TRACED_ROUNDS, tell)


async def _placed(
    stack: AsyncExitStack,
    part: dict[str, Contender],
    load: Load,
    servers: tuple[Settings, Embedded | None],
    tell: Tell,
) -> dict[str, Placed]:
    """Return each with the stream it needs, which it shares with those that need the same."""
    grounds: dict[Load, Ground] = {}
    placed = {}
    for name, one in part.items():
        own = one.load(load)
        if own not in grounds:
            grounds[own] = await stack.enter_async_context(made(*servers))
            tell(f"publishing {own.messages:,} messages for {one.title}")
            await grounds[own].publish(own)
        placed[name] = grounds[own], own, one
    return placed


async def rounds_of(part: dict[str, Placed], repeats: int, tell: Tell) -> Rounds:
    """Order the runs: each runs once a round, and another one begins each round."""
    rounds = Rounds({name: one.title for name, (_, _, one) in part.items()}, {name: [] for name in part})
    names = list(part)
    for number in range(repeats):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            cost = await run(*part[name])
            rounds.costs[name].append(cost)
            tell(f"round {number + 1} of {repeats}: {name} {cost.rate:,.0f} events/s")
    return rounds


async def _counted(ground: Ground, load: Load, one: Contender) -> float | None:
    """Return how many statements ran for 1,000 events; None where the server does not tell."""
    some = min(load.messages, COUNTED)
    found: list[int] = []
    async with ground.scene() as scene, ground.meter.statements(found.append) as can:
        if can:
            cost = await trial(ground, scene, one, some, load.messages)
    return round(found[0] * 1000 / cost.events, 1) if found else None
