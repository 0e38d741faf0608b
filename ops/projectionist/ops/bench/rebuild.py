"""`bench rebuild`: from stream to verified swap, beside the bare drain and the shortest script that makes the rows."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.ops.bench.children import BenchError, running
from projectionist.ops.bench.contenders import contenders
from projectionist.ops.bench.figures import costs_of
from projectionist.ops.bench.trial import Cost, run, trial
from projectionist.ops.terminal import table

if TYPE_CHECKING:
    from projectionist.ops.bench.ground import Ground
    from projectionist.ops.bench.load import Load
    from projectionist.ops.bench.scene import Scene

PATIENCE_S = 3600

TITLES = {
    "rebuild": "projectionist rebuild: stream to verified swap",
    "drain": "bare acked drain: transport alone",
    "twin": "twin: read, fold, copy, no guards",
}
MODULES = {"rebuild": "projectionist.ops.bench.rebuilder", "twin": "projectionist.ops.bench.refold"}


class Built(msgspec.Struct):
    """What the processes say they did; the product says more."""

    seconds: float
    events: int
    phases: dict[str, float] = {}


class _Said(msgspec.Struct):
    rebuilt: list[Built]


class Measured(msgspec.Struct):
    """The cost of each round, by contender, and how the product's time is made up."""

    costs: dict[str, list[Cost]]
    phases: list[dict[str, float]]

    def ratios(self, name: str) -> list[float]:
        """The product's rate by that of another in the same round."""
        pairs = zip(self.costs["rebuild"], self.costs[name], strict=True)
        return [product.rate / other.rate for product, other in pairs]


async def rebuild(ground: Ground, load: Load, repeats: int, tell: Callable[[str], None]) -> Measured:
    """Let the product settle the load once, then rebuild it in rounds."""
    tell(f"publishing {load.events:,} events")
    await ground.publish(load)
    measured = Measured({name: [] for name in TITLES}, [])
    async with ground.scene(random_ids=load.random_ids) as scene:
        tell("settling them")
        part, _ = contenders(ground.settings.nats, past=0)
        await trial(ground, scene, part["product"], load.events, load.events)
        for number in range(repeats):
            measured.costs["drain"].append(await run(ground, load, part["drain"]))
            for name, module in MODULES.items():
                cost, built = await _built(ground, scene, module, load.events)
                measured.costs[name].append(cost)
                if name == "rebuild":
                    measured.phases.append(built.phases)
                tell(f"round {number + 1} of {repeats}: {name} {cost.rate:,.0f} events/s")
    return measured


async def _built(ground: Ground, scene: Scene, module: str, events: int) -> tuple[Cost, Built]:
    async with running(ground.settings, scene, ("-m", module)) as child:
        code = await child.over(PATIENCE_S)
        said = child.said()
    begin = said.find('{\n  "rebuilt"')
    if code or begin < 0:
        raise BenchError(f"{module} ended with {code}: {said}")
    (built,) = msgspec.json.decode(_document(said[begin:]), type=_Said).rebuilt
    if built.events != events:
        raise BenchError(f"{module} read {built.events} of {events} events")
    return Cost(events, built.seconds, child.cpu_s, child.rss_mb), built


def _document(text: str) -> str:
    """The JSON document at the beginning of a text that goes on with log lines."""
    return text[: f"{text}\n".index("\n}\n") + 2]


def document(measured: Measured, load: Load, repeats: int, about: dict[str, Any]) -> dict[str, Any]:
    """Everything, for programs: `rebuild.ratio_drain`, `rebuild.ratio_twin`, and what each cost."""
    found: dict[str, Any] = {}
    for name in ("drain", "twin"):
        ratios = measured.ratios(name)
        found[f"ratio_{name}"] = round(median(ratios), 3)
        found[f"ratio_{name}_spread"] = [round(min(ratios), 3), round(max(ratios), 3)]
    found |= {name: costs_of(costs) for name, costs in measured.costs.items()}
    found["phases_s"] = _phases(measured)
    settings = msgspec.structs.asdict(load) | {"repeats": repeats}
    return {"rebuild": found, **about, "settings": settings | about["settings"]}


def text(measured: Measured, load: Load, about: dict[str, Any]) -> str:
    """Everything, for people."""
    lines = [("ratio", "events/s", "ms CPU/1,000", "RSS MB", "")]
    for name, title in TITLES.items():
        own = costs_of(measured.costs[name])
        ratio = "" if name == "rebuild" else f"{median(measured.ratios(name)):.2f}"
        numbers = f"{own['events_per_s']:,.0f}", f"{own['cpu_ms_per_1000']:.1f}", f"{own['rss_mb']:.0f}"
        lines.append((ratio, *numbers, title))
    phases = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in _phases(measured).items())
    return "\n".join(
        (
            f"{load.events:,} events of {load.payload} bytes over {load.aggregates:,} aggregates",
            "ratio: the rebuild's events/s by those of the line, in the same round",
            "",
            table(lines),
            "",
            f"of which: {phases}",
            *(f"{part}: {', '.join(f'{k} {v}' for k, v in about[part].items())}" for part in about),
        )
    )


def _phases(measured: Measured) -> dict[str, float]:
    names = measured.phases[0]
    return {name: round(median(phases[name] for phases in measured.phases), 3) for name in names}
