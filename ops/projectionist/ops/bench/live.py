"""`bench live`: the product beside its twin, the bare drain and a peer, in rounds, on one stream."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.settings import Nats
from projectionist.core.sql import Statements
from projectionist.ops.bench.children import BenchError
from projectionist.ops.bench.lone import Lone, lone
from projectionist.ops.bench.trial import Cost, trial

if TYPE_CHECKING:
    from projectionist.ops.bench.ground import Ground
    from projectionist.ops.bench.load import Load

PEER_SHARE, PEER_LEAST = 20, 2000
"""The peer gets one event of so many, and at least so many: it would need minutes for all."""


class Contender(msgspec.Struct, frozen=True):
    """Who takes part."""

    arguments: tuple[str, ...]
    share: int = 1
    past: int = 0
    """How many settled events its inbox holds before the first."""
    keeps: bool = True
    """Whether it writes the inbox."""

    def events(self, load: Load) -> int:
        """How many of the load's events it gets."""
        return (
            load.events if self.share == 1 else min(load.events, max(PEER_LEAST, load.events // self.share))
        )


PRODUCT = ("-m", "projectionist.ops.bench.product")


PURGING = ("-m", "projectionist.ops.bench.purging")


def contenders(nats: Nats, past: int, *, purge: bool = False) -> tuple[dict[str, Contender], dict[str, str]]:
    """Those that can take part, and why others cannot."""
    part = {
        "product": Contender(PRODUCT),
        "twin": Contender(("-m", "projectionist.ops.bench.twin")),
        "drain": Contender(("-m", "projectionist.ops.bench.drain"), keeps=False),
        "faststream": Contender(("-m", "projectionist.ops.bench.peer"), share=PEER_SHARE),
    }
    if past:
        part["product_inbox_rows"] = Contender(PRODUCT, past=past)
    if purge:
        part["product_purging"] = Contender(PURGING, past=past)
    why = ""
    if find_spec("faststream") is None:
        why = "it is not installed: pip install 'projectionist[bench]'"
    elif nats != Nats(url=nats.url):
        why = "it is connected by a URL alone, and this broker asks for more"
    if not why:
        return part, {}
    del part["faststream"]
    return part, {"faststream": why}


class Live(msgspec.Struct, frozen=True):
    """What was measured: for each contender the cost of each round."""

    costs: dict[str, list[Cost]]
    skipped: dict[str, str]
    lone: Lone

    def ratios(self, name: str) -> list[float]:
        """The product's rate by that of another in the same round; empty where that one did not take part."""
        pairs = zip(self.costs["product"], self.costs.get(name, ()), strict=False)
        return [product.rate / other.rate for product, other in pairs]

    def rate(self, name: str) -> float:
        """The median rate of a contender."""
        return median(cost.rate for cost in self.costs[name])


async def live(
    ground: Ground, load: Load, repeats: int, past: int, tell: Callable[[str], None], *, purge: bool = False
) -> Live:
    """Measure; `tell` hears what is being done."""
    part, skipped = contenders(ground.settings.nats, past, purge=purge)
    tell(f"publishing {load.events:,} events")
    await ground.publish(load)
    costs: dict[str, list[Cost]] = {name: [] for name in part}
    names = list(part)
    for number in range(repeats):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            cost, gone = await _run(ground, load, part[name])
            costs[name].append(cost)
            beside = f", {gone:,} old rows removed meanwhile" if gone else ""
            tell(f"round {number + 1} of {repeats}: {name} {cost.rate:,.0f} events/s{beside}")
    tell("lone events")
    return Live(costs, skipped, await lone(ground, load, PRODUCT))


async def _run(ground: Ground, load: Load, one: Contender) -> tuple[Cost, int]:
    """What it cost, and how many rows of its past are gone afterwards."""
    async with ground.scene(past=one.past, random_ids=load.random_ids) as scene:
        wanted = one.events(load)
        cost = await trial(ground.settings, scene, ground.client, one.arguments, wanted, load.events)
        settled = await ground.connection.fetchval(
            Statements("projectionist.ops.bench", scene.schema)["settled"]
        )
        left = await ground.connection.fetchval(
            Statements("projectionist.ops.bench", scene.schema)["past_left"]
        )
    if one.keeps and settled < wanted:
        raise BenchError(f"{one.arguments[-1]} acked {cost.events} events and keeps {settled}")
    return cost, one.past - left
