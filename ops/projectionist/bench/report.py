"""What a benchmark says: a table for people, ratios first, and one JSON document for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from projectionist.bench.figures import STEADY, USED, costs_of, cpu_us, ratio, shown, spread, used
from projectionist.core.postgres.statements import Statements
from projectionist.ops.cli.output import table

if TYPE_CHECKING:
    from projectionist.bench.ground import Ground
    from projectionist.bench.live import LiveFigures, Rounds
    from projectionist.bench.load import Load

_PACKAGES = (
    *("projectionist", "asyncpg", "msgspec", "nats-py", "uvloop"),
    *("faststream", "pgqueuer", "eventsourcing"),
)
VARIED = "What else users ask of the product. ratio: the events/s of the line by those of one projection"
TRACED = "What telemetry costs. ratio: the events/s of the line by those of the first"


def document(measured: LiveFigures) -> dict[str, Any]:
    """Return everything, for programs: `live.ratio_NAME`, and what each contender cost."""
    rounds = measured.rounds
    others = [name for name in rounds.costs if name != "product"] + list(measured.skipped)
    live: dict[str, Any] = {}
    for name in others:
        ratios = rounds.ratios("product", name)
        live |= {f"ratio_{name}": ratio(ratios), f"ratio_{name}_spread": spread(ratios)}
    live |= {name: costs_of(costs) for name, costs in rounds.costs.items()}
    live |= {"cpu_us": cpu_us(rounds.costs["product"])}
    live |= {"statements_per_1000": measured.statements, "lone_visible_ms": measured.lone}
    live |= {"skipped": measured.skipped}
    if measured.varied is not None:
        live |= {"variants": _by(measured.varied, "plain")}
    if measured.traced is not None:
        live |= _costs_of_tracing(measured.traced) | {"tracing": _by(measured.traced, "contexts")}
    return {"live": live}


def _by(rounds: Rounds, base: str) -> dict[str, Any]:
    """Return each of them by the one they are compared with."""
    return {
        name: {f"of_{base}": ratio(ratios), f"of_{base}_spread": spread(ratios)} | costs_of(costs)
        for name, costs in rounds.costs.items()
        if (ratios := rounds.ratios(name, base))
    }


def _costs_of_tracing(rounds: Rounds) -> dict[str, Any]:
    """Return the share of the rate that is lost, by the same events where nobody listens."""
    costs: dict[str, Any] = {}
    for key, name in (("cost_tracing_unsampled", "unsampled"), ("cost_tracing_1pct", "sampled")):
        lost = [1 - left for left in rounds.ratios(name, "contexts")]
        costs |= {key: ratio(lost), f"{key}_spread": spread(lost)}
    return costs


def text(measured: LiveFigures, load: Load) -> str:
    """Return everything, for people."""
    lone, rounds = measured.lone, measured.rounds
    statements = ", ".join(f"{name} {count:,.0f}" for name, count in measured.statements.items())
    return "\n".join(
        (
            f"{load.events:,} events of {load.payload} bytes over {load.aggregates:,} aggregates",
            "ratio: the product's events/s by those of the line, in the same round",
            "",
            table(_lines(rounds, "product", lambda name: rounds.ratios("product", name))),
            "",
            f"A lone event is visible {lone.p50:.1f} ms after it was published (p99: {lone.p99:.1f} ms).",
            *([f"Statements for 1,000 events: {statements}."] if statements else []),
            *_steady(rounds),
            *(f"{name}: left out, {why}" for name, why in measured.skipped.items()),
            *(_beside(measured.varied, "plain", VARIED) if measured.varied else ()),
            *(_beside(measured.traced, "contexts", TRACED) if measured.traced else ()),
            "",
        )
    )


def _steady(rounds: Rounds) -> Iterator[str]:
    """Say what an event takes once the processes have started: of product and twin, by process."""
    for name in ("product", "twin"):
        each = cpu_us(rounds.costs[name])
        if each["total"] is not None:
            parts = ", ".join(f"{part} {shown(each[part])}" for part in STEADY)
            yield f"Processor time of an event in steady state, {name}, µs: {parts}."


def _beside(rounds: Rounds, base: str, heading: str) -> Iterator[str]:
    yield from ("", heading, "")
    yield table(_lines(rounds, base, lambda name: rounds.ratios(name, base)))


def _lines(rounds: Rounds, base: str, ratios_of: Callable[[str], Sequence[float]]) -> Iterator[Sequence[str]]:
    above, below = USED
    yield "ratio", "spread", "events/s", "spread", *above, "RSS MB", ""
    yield "", "", "", "", *below, "", ""
    for name, costs in rounds.costs.items():
        ratios, own = ratios_of(name), costs_of(costs)
        yield (
            "" if name == base else shown(ratio(ratios), 2),
            "" if name == base else "-".join(shown(one, 2) for one in spread(ratios)),
            shown(own["events_per_s"], 0),
            "-".join(shown(one, 0) for one in own["spread"]),
            *used(own),
            shown(own["rss_mb"], 0),
            rounds.titles[name],
        )


async def about(ground: Ground, servers: str, sync: str) -> dict[str, Any]:
    """Say where and with what it was measured."""
    facts = await ground.connection.fetch(Statements("projectionist.bench", "projectionist")["facts"])
    postgres = {row["name"]: row["value"] for row in facts}
    nats = ground.client.connected_server_version
    broker = f"{nats.major}.{nats.minor}.{nats.patch}"
    return {
        "machine": {
            "cpu": _processor(),
            "cores": os.cpu_count(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "system": platform.platform(terse=True),
        },
        "versions": {
            "python": platform.python_version(),
            "postgresql": postgres.pop("server_version"),
            "nats-server": broker,
        }
        | {name: found for name in _PACKAGES if (found := _version(name))},
        "settings": {"servers": servers, "nats_sync": sync} | postgres,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
