"""`bench size`: the product's throughput against what grows, one thing at a time."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.bench.contenders import PRODUCT, Contender, variants
from projectionist.bench.curves import Curve, svg
from projectionist.bench.ground import ground as made
from projectionist.bench.trial import run
from projectionist.ops.cli.output import table

if TYPE_CHECKING:
    from projectionist.bench.load import Load
    from projectionist.core.settings.settings import Settings
    from projectionist.ops.embedded import Embedded

INBOX = 10_000_000
AGGREGATES = (100, 1_000, 10_000, 100_000)
PAYLOAD = (100, 300, 1_000, 4_000, 16_000)
BACKLOG = (1, 3, 10)
"""Times the load."""

Tell = Callable[[str], None]


class Point(msgspec.Struct, frozen=True):
    """A size, and what it takes to get there."""

    at: int
    load: Load
    one: Contender


async def size(
    settings: Settings, embedded: Embedded | None, load: Load, inbox: int, repeats: int, tell: Tell
) -> dict[str, dict[int, list[float]]]:
    """Return events a second at every size, by what grows; an empty inbox is measured in turn with full ones."""
    found: dict[str, dict[int, list[float]]] = {}
    for name, points in _plan(load, inbox).items():
        rates = found[name] = {point.at: [] for point in points}
        for number in range(repeats):
            for point in points[number % len(points) :] + points[: number % len(points)]:
                async with made(settings, embedded) as ground:
                    await ground.publish(point.load)
                    cost = await run(ground, point.load, point.one)
                rates[point.at].append(cost.rate)
                tell(f"round {number + 1} of {repeats}: {name} {point.at:,}: {cost.rate:,.0f} events/s")
    return found


def _plan(load: Load, inbox: int) -> dict[str, list[Point]]:
    plain = variants()["plain"]
    replace = msgspec.structs.replace

    def loads(values: tuple[int, ...], make: Callable[[int], Load]) -> list[Point]:
        return [Point(value, make(value), plain) for value in values]

    def full(rows: int) -> Contender:
        return Contender(title=f"an inbox of {rows:,} rows", arguments=PRODUCT, past=rows)

    return {
        "aggregates": loads(AGGREGATES, lambda n: replace(load, aggregates=n)),
        "payload_bytes": loads(PAYLOAD, lambda n: replace(load, payload=n)),
        "backlog_events": loads(tuple(load.events * n for n in BACKLOG), lambda n: replace(load, events=n)),
        "inbox_rows": [Point(rows, load, full(rows)) for rows in (0, inbox // 10, inbox)],
        "projections": [
            Point(n, load, Contender(title=f"{n} projections", arguments=(*PRODUCT[:-1], app)))
            for n, app in ((1, "plain"), (2, "two"), (4, "four"))
        ],
    }


def document(found: dict[str, dict[int, list[float]]]) -> dict[str, Any]:
    """Return everything, for programs; `size.inbox_10m_ratio` is the fullest inbox by the empty one, in the same
    round."""
    curves: dict[str, Any] = {
        name: {str(at): round(median(values), 1) for at, values in rates.items()}
        for name, rates in found.items()
    }
    empty, full = found["inbox_rows"][0], found["inbox_rows"][max(found["inbox_rows"])]
    ratios = [one / other for one, other in zip(full, empty, strict=True)]
    return {"size": curves | {"inbox_10m_ratio": round(median(ratios), 3)}}


def text(found: dict[str, dict[int, list[float]]]) -> str:
    """Return everything, for people."""
    lines = [("what grows", "to", "events/s", "spread")]
    for name, rates in found.items():
        for at, values in rates.items():
            spread = f"{min(values):,.0f}-{max(values):,.0f}"
            lines.append((name.replace("_", " "), f"{at:,}", f"{median(values):,.0f}", spread))
    return f"{table(lines)}\n"


def plot(found: dict[str, dict[int, list[float]]]) -> str:
    """Return the curves as an SVG picture."""
    return svg(
        [
            Curve(name.replace("_", " "), [(at, median(values)) for at, values in rates.items()])
            for name, rates in found.items()
        ],
        "events/s",
    )
