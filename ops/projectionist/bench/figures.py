"""What costs come to: medians, spreads, and ratios inside rounds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from projectionist.bench.trial import Cost


def costs_of(costs: Sequence[Cost], what: str = "events") -> dict[str, Any]:
    """Return the rate, the processor time of everyone involved, WAL and memory; null where it is not known."""
    used = [cost.used for cost in costs]
    return {
        f"{what}_per_s": round(median(cost.rate for cost in costs), 1),
        "spread": spread([cost.rate for cost in costs]),
        what: median(cost.events for cost in costs),
        "cpu_ms_per_1000": _per_1000([cost.cpu_s * 1000 for cost in costs], costs),
        "postgres_cpu_ms_per_1000": _per_1000(
            [one.postgres_cpu_s * 1000 if one and one.postgres_cpu_s is not None else None for one in used],
            costs,
        ),
        "nats_cpu_ms_per_1000": _per_1000(
            [one.nats_cpu_s * 1000 if one and one.nats_cpu_s is not None else None for one in used], costs
        ),
        "wal_bytes_per_1000": _per_1000([one.wal_bytes if one else None for one in used], costs),
        "rss_mb": round(max(cost.rss_mb for cost in costs), 1),
        "cpu_us": cpu_us(costs),
    }


STEADY = ("client", "postgres", "nats", "total")


def cpu_us(costs: Sequence[Cost]) -> dict[str, float | None]:
    """Return the processor time of an event in steady state, by process; null where it is not known."""
    steady = [cost.steady for cost in costs if cost.steady is not None]
    known = {part: [v for one in steady if (v := getattr(one, part)) is not None] for part in STEADY}
    return {part: round(median(values), 2) if values else None for part, values in known.items()}


def _per_1000(values: Iterable[float | None], costs: Sequence[Cost]) -> float | None:
    pairs = zip(values, costs, strict=True)
    known = [value * 1000 / cost.events for value, cost in pairs if value is not None]
    return round(median(known), 2) if known else None


USED = ("CPU", "PostgreSQL", "NATS", "WAL KB"), ("ms/1,000", "ms/1,000", "ms/1,000", "/1,000")
"""Two lines above the columns of `used`."""


def used(costs: dict[str, Any]) -> tuple[str, str, str, str]:
    """Return what `costs_of` says about processors and WAL, in a table."""
    wal = costs["wal_bytes_per_1000"]
    return (
        shown(costs["cpu_ms_per_1000"]),
        shown(costs["postgres_cpu_ms_per_1000"]),
        shown(costs["nats_cpu_ms_per_1000"]),
        shown(None if wal is None else wal / 1024, 0),
    )


def ratio(values: Sequence[float]) -> float | None:
    """Return the median; null where there is none."""
    return round(median(values), 3) if values else None


def spread(values: Sequence[float]) -> list[float]:
    """Return the least and the most."""
    return [round(min(values), 3), round(max(values), 3)] if values else []


def shown(value: float | None, digits: int = 1) -> str:
    """Return a figure in a table; empty where it is not known."""
    return "" if value is None else f"{value:,.{digits}f}"
