"""`bench rebuild`: from stream to verified swap, beside the bare drain and the shortest script that makes the rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.bench.children import BenchError, running
from projectionist.bench.contenders import contenders
from projectionist.bench.figures import USED, costs_of, ratio, spread, used
from projectionist.bench.ground import ground as made
from projectionist.bench.trial import Cost, run, trial
from projectionist.ops.cli.output import table

if TYPE_CHECKING:
    from projectionist.bench.ground import Ground
    from projectionist.bench.load import Load
    from projectionist.bench.meters import Used
    from projectionist.bench.scene import Scene

PATIENCE_S = 3600

TITLES = {
    "rebuild": "projectionist rebuild: stream to verified swap",
    "drain": "bare acked drain: transport alone",
    "twin": "twin: read, fold, copy, no guards",
    "eventsourcing": "eventsourcing's ProjectionRunner, one transaction an event",
}
LIVE_SHARE = 5
"""A live consumer beside the rebuild gets as many events as one of so many."""
PEER_SHARE = 100
"""The peer gets one event of so many, of a store of its own."""
MODULES = {"rebuild": "projectionist.bench.rebuilder", "twin": "projectionist.bench.refold"}


class Built(msgspec.Struct):
    """What the processes say they did; the product says more."""

    seconds: float
    events: int
    phases: dict[str, float] = {}
    held_s: float = 0.0


class _Said(msgspec.Struct):
    rebuilt: list[Built]


class RebuildResult(msgspec.Struct):
    """The cost of each round, by contender, and how the product's time is made up."""

    costs: dict[str, list[Cost]]
    phases: list[dict[str, float]]
    held_s: list[float] = []
    """How long each rebuild has kept the consumer's batches waiting at most."""
    skipped: dict[str, str] = {}
    beside: list[float] = []
    """Live throughput while a read model is rebuilt, by that without, in each round."""

    def ratios(self, name: str) -> list[float]:
        """Return the product's rate by that of another in the same round."""
        pairs = zip(self.costs["rebuild"], self.costs[name], strict=False)
        return [product.rate / other.rate for product, other in pairs]


async def rebuild(ground: Ground, load: Load, repeats: int, tell: Callable[[str], None]) -> RebuildResult:
    """Let the product settle the load once, then rebuild it in rounds."""
    tell(f"publishing {load.events:,} events")
    await ground.publish(load)
    measured = RebuildResult({name: [] for name in TITLES}, [])
    async with ground.scene(random_ids=load.random_ids) as scene:
        tell("settling them")
        part, _ = contenders(ground.settings.nats, past=0)
        await trial(ground, scene, part["product"], load.events, load.events)
        for number in range(repeats):
            measured.costs["drain"].append(await run(ground, load, part["drain"]))
            for name, module in MODULES.items():
                cost, built = await _built(ground, scene, module)
                if built.events != load.events:
                    raise BenchError(f"{module} read {built.events} of {load.events} events")
                measured.costs[name].append(cost)
                if name == "rebuild":
                    measured.phases.append(built.phases)
                    measured.held_s.append(built.held_s)
                tell(f"round {number + 1} of {repeats}: {name} {cost.rate:,.0f} events/s")
        measured.beside = await _beside(ground, scene, load, repeats, tell)
    if find_spec("eventsourcing") is None:
        measured.skipped["eventsourcing"] = "it is not installed: pip install 'projectionist[bench]'"
        return measured
    for number in range(repeats):
        some = str(max(1000, load.events // PEER_SHARE))
        async with ground.scene() as other:
            cost, _ = await _built(ground, other, "projectionist.bench.rebuild_peer", some)
        measured.costs["eventsourcing"].append(cost)
        tell(f"round {number + 1} of {repeats}: eventsourcing {cost.rate:,.0f} events/s")
    return measured


async def _beside(
    ground: Ground, scene: Scene, load: Load, repeats: int, tell: Callable[[str], None]
) -> list[float]:
    """Measure what is left to a live consumer of other events while this read model is rebuilt, again and again."""
    part, _ = contenders(ground.settings.nats, past=0)
    fewer = msgspec.structs.replace(
        load, events=max(1, load.events // LIVE_SHARE), aggregates=max(1, load.aggregates // LIVE_SHARE)
    )
    shares = []
    async with made(ground.settings) as other:
        await other.publish(fewer)
        for number in range(repeats):
            alone = await run(other, fewer, part["product"])
            rebuilding = asyncio.ensure_future(_for_ever(ground, scene))
            try:
                beside = await run(other, fewer, part["product"])
            finally:
                rebuilding.cancel()
                await asyncio.gather(rebuilding, return_exceptions=True)
            shares.append(beside.rate / alone.rate)
            tell(f"round {number + 1} of {repeats}: live beside a rebuild {shares[-1]:.2f} of live alone")
    return shares


async def _for_ever(ground: Ground, scene: Scene) -> None:
    while True:
        await _built(ground, scene, MODULES["rebuild"])


async def _built(ground: Ground, scene: Scene, module: str, *arguments: str) -> tuple[Cost, Built]:
    found: list[Used] = []
    async with (
        ground.meter.over(found.append),
        running(ground.settings, scene, ("-m", module, *arguments)) as child,
    ):
        code = await child.over(PATIENCE_S)
        said = child.said()
    begin = said.find('{\n  "rebuilt"')
    if code or begin < 0:
        raise BenchError(f"{module} ended with {code}: {said}")
    (built,) = msgspec.json.decode(_document(said[begin:]), type=_Said).rebuilt
    return Cost(
        events=built.events, seconds=built.seconds, cpu_s=child.cpu_s, rss_mb=child.rss_mb, used=found[0]
    ), built


def _document(text: str) -> str:
    """Return the JSON document at the beginning of a text that goes on with log lines."""
    return text[: f"{text}\n".index("\n}\n") + 2]


def document(measured: RebuildResult) -> dict[str, Any]:
    """Return everything, for programs: `rebuild.ratio_drain`, `rebuild.ratio_twin`, and what each cost."""
    found: dict[str, Any] = {}
    for name in ("drain", "twin", "eventsourcing"):
        ratios = measured.ratios(name)
        found |= {f"ratio_{name}": ratio(ratios), f"ratio_{name}_spread": spread(ratios)}
    found |= {name: costs_of(costs) for name, costs in measured.costs.items() if costs}
    found |= {"live_beside": ratio(measured.beside), "live_beside_spread": spread(measured.beside)}
    found |= {"phases_s": _phases(measured), "held_s": max(measured.held_s, default=0.0)}
    return {"rebuild": found | {"skipped": measured.skipped}}


def text(measured: RebuildResult, load: Load) -> str:
    """Return everything, for people."""
    above, below = USED
    lines = [("ratio", "events/s", *above, "RSS MB", ""), ("", "", *below, "", "")]
    for name, title in TITLES.items():
        if not measured.costs[name]:
            continue
        own = costs_of(measured.costs[name])
        shown = "" if name == "rebuild" else f"{median(measured.ratios(name)):.2f}"
        lines.append((shown, f"{own['events_per_s']:,.0f}", *used(own), f"{own['rss_mb']:.0f}", title))
    phases = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in _phases(measured).items())
    return "\n".join(
        (
            f"{load.events:,} events of {load.payload} bytes over {load.aggregates:,} aggregates",
            "ratio: the rebuild's events/s by those of the line, in the same round",
            "",
            table(lines),
            "",
            f"of which: {phases}",
            f"batches were kept waiting for {max(measured.held_s, default=0.0) * 1000:.1f} ms at most",
            f"live throughput while it is rebuilt: {ratio(measured.beside) or 0:.2f} of that without",
            *(f"{TITLES[name]}: left out, {why}" for name, why in measured.skipped.items()),
            "",
        )
    )


def _phases(measured: RebuildResult) -> dict[str, float]:
    names = measured.phases[0]
    return {name: round(median(phases[name] for phases in measured.phases), 3) for name in names}
