"""What a benchmark says: a table for people, ratios first, and one JSON document for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.settings import Batch
from projectionist.core.sql import Statements
from projectionist.ops.terminal import table

if TYPE_CHECKING:
    from projectionist.ops.bench.ground import Ground
    from projectionist.ops.bench.live import Live
    from projectionist.ops.bench.load import Load
    from projectionist.ops.bench.trial import Cost

_PACKAGES = ("projectionist", "asyncpg", "msgspec", "nats-py", "uvloop", "faststream", "pgqueuer")

TITLES = {
    "product": "product, every guarantee on, no tracing",
    "twin": "live twin: the same statements, no guards",
    "drain": "bare acked drain: transport alone",
    "faststream": "FastStream, one transaction an event",
    "product_inbox_rows": "product on an inbox that is full",
    "product_purging": "product on such an inbox, retention at work",
}


def document(measured: Live, load: Load, repeats: int, about: dict[str, Any]) -> dict[str, Any]:
    """Everything, for programs: `live.ratio_NAME`, and what each contender cost."""
    others = [name for name in TITLES if name != "product"]
    ratios = {f"ratio_{name}": _ratio(measured.ratios(name)) for name in others}
    spreads = {f"ratio_{name}_spread": _spread(measured.ratios(name)) for name in others}
    found = {name: _costs(costs) for name, costs in measured.costs.items()}
    live = ratios | spreads | found | {"lone_visible_ms": measured.lone, "skipped": measured.skipped}
    settings = msgspec.structs.asdict(load) | {"repeats": repeats, "batch_rows": Batch().max_rows}
    return {"live": live, **about, "settings": settings | about["settings"]}


def text(measured: Live, load: Load, about: dict[str, Any]) -> str:
    """Everything, for people."""
    lone = measured.lone
    return "\n".join(
        (
            f"{load.events:,} events of {load.payload} bytes over {load.aggregates:,} aggregates",
            "ratio: the product's events/s by those of the line, in the same round",
            "",
            table(_lines(measured)),
            "",
            f"A lone event is visible {lone.p50:.1f} ms after it was published (p99: {lone.p99:.1f} ms).",
            *(f"{TITLES[name]}: left out, {why}" for name, why in measured.skipped.items()),
            "",
            *(f"{part}: {', '.join(f'{k} {v}' for k, v in about[part].items())}" for part in about),
        )
    )


def _lines(measured: Live) -> Iterator[Sequence[str]]:
    yield "ratio", "spread", "events/s", "spread", "ms CPU/1,000", "RSS MB", ""
    for name, title in TITLES.items():
        if name in measured.costs:
            costs, ratios = measured.costs[name], measured.ratios(name)
            own = _costs(costs)
            yield (
                "" if name == "product" else f"{median(ratios):.2f}",
                "" if name == "product" else f"{min(ratios):.2f}-{max(ratios):.2f}",
                f"{own['events_per_s']:,.0f}",
                "-".join(f"{rate:,.0f}" for rate in own["spread"]),
                f"{own['cpu_ms_per_1000']:.1f}",
                f"{own['rss_mb']:.0f}",
                title,
            )


def _costs(costs: Sequence[Cost]) -> dict[str, Any]:
    return {
        "events_per_s": round(median(cost.rate for cost in costs), 1),
        "spread": _spread([cost.rate for cost in costs]),
        "events": median(cost.events for cost in costs),
        "cpu_ms_per_1000": round(median(cost.cpu_s * 1e6 / cost.events for cost in costs), 2),
        "rss_mb": round(max(cost.rss_mb for cost in costs), 1),
    }


def _ratio(ratios: Sequence[float]) -> float | None:
    return round(median(ratios), 3) if ratios else None


def _spread(values: Sequence[float]) -> list[float]:
    return [round(min(values), 3), round(max(values), 3)] if values else []


async def about(ground: Ground, servers: str, sync: str) -> dict[str, Any]:
    """Where and with what it was measured."""
    facts = await ground.connection.fetch(Statements("projectionist.ops.bench", "projectionist")["facts"])
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
