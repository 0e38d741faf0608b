"""One benchmark after the other, and what they say together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.bench import compare, latency, live, rebuild, relay, report, size
from projectionist.bench.ground import ground
from projectionist.bench.load import Load

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.ops.embedded import Embedded

Tell = Callable[[str], None]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants; what is None is for each benchmark to say."""

    events: int | None = None
    aggregates: int | None = None
    payload: int = 300
    repeats: int = 3
    random_ids: bool = False
    inbox_rows: int = 0
    variants: bool = False
    revisions: tuple[str, ...] = ()
    """Those that are compared: the old one and the new one."""
    latency_plan: latency.LatencyPlan = latency.LatencyPlan()

    def load(self, events: int, aggregates: int) -> Load:
        """Return the load, with these sizes where nothing else was asked for."""
        return Load(
            events=self.events or events,
            aggregates=self.aggregates or aggregates,
            payload=self.payload,
            random_ids=self.random_ids,
        )


class BenchReport(msgspec.Struct):
    """The result for programs and for people."""

    document: dict[str, Any]
    settings: dict[str, Any]
    text: str
    plot: str = ""


async def suite(
    what: str, asked: Asked, settings: Settings, embedded: Embedded | None, tell: Tell
) -> BenchReport:
    """Run the benchmark of this name, or with "all" everything but `size`."""
    if what != "all":
        return await _PARTS[what](asked, settings, embedded, tell)
    asked = msgspec.structs.replace(asked, variants=True)
    reports = {}
    for name in ("live", "rebuild", "relay", "latency"):
        tell(f"-- {name}")
        reports[name] = await _PARTS[name](asked, settings, embedded, tell)
    document = {key: value for one in reports.values() for key, value in one.document.items()}
    document["rss_mb"] = {
        "live": document["live"]["product"]["rss_mb"],
        "rebuild": document["rebuild"]["rebuild"]["rss_mb"],
        "relay": document["relay"]["product"]["rss_mb"],
    }
    texts = [f"{name}\n\n{one.text}\n" for name, one in reports.items()]
    return BenchReport(document, {name: one.settings for name, one in reports.items()}, "\n".join(texts))


async def _live(asked: Asked, settings: Settings, embedded: Embedded | None, tell: Tell) -> BenchReport:
    load = asked.load(200_000, 20_000)
    async with ground(settings, embedded) as made:
        measured = await live.live(made, load, asked.repeats, asked.inbox_rows, tell)
    if asked.variants:
        measured.varied = await live.varied(settings, embedded, load, asked.repeats, tell)
        measured.traced = await live.traced(settings, embedded, load, asked.repeats, tell)
    return BenchReport(report.document(measured), _settings(load, asked), report.text(measured, load))


async def _compare(asked: Asked, settings: Settings, embedded: Embedded | None, tell: Tell) -> BenchReport:
    load = asked.load(200_000, 20_000)
    async with ground(settings, embedded) as made:
        rounds = await compare.compare(made, load, asked.revisions, asked.repeats, tell)
    return BenchReport(compare.document(rounds), _settings(load, asked), compare.text(rounds))


async def _rebuild(asked: Asked, settings: Settings, embedded: Embedded | None, tell: Tell) -> BenchReport:
    load = asked.load(1_000_000, 100_000)
    async with ground(settings, embedded) as made:
        measured = await rebuild.rebuild(made, load, asked.repeats, tell)
    return BenchReport(rebuild.document(measured), _settings(load, asked), rebuild.text(measured, load))


async def _relay(asked: Asked, settings: Settings, embedded: Embedded | None, tell: Tell) -> BenchReport:
    backlog = relay.Backlog(asked.events or 50_000, asked.aggregates or 20_000, asked.payload)
    async with ground(settings, embedded) as made:
        measured = await relay.relay(made, backlog, asked.repeats, tell)
    sizes = msgspec.structs.asdict(backlog) | {"repeats": asked.repeats}
    return BenchReport(relay.document(measured), sizes, relay.text(measured, backlog))


async def _latency(asked: Asked, settings: Settings, _: Embedded | None, tell: Tell) -> BenchReport:
    load = asked.load(0, 20_000)
    measured = await latency.latency(settings, load, asked.latency_plan, tell)
    sizes = {"aggregates": load.aggregates, "payload": load.payload, "seconds": asked.latency_plan.seconds}
    return BenchReport(latency.document(measured), sizes, latency.text(measured))


async def _size(asked: Asked, settings: Settings, embedded: Embedded | None, tell: Tell) -> BenchReport:
    load = asked.load(100_000, 10_000)
    measured = await size.size(settings, embedded, load, asked.inbox_rows or size.INBOX, asked.repeats, tell)
    return BenchReport(
        size.document(measured), _settings(load, asked), size.text(measured), size.plot(measured)
    )


def _settings(load: Load, asked: Asked) -> dict[str, Any]:
    return msgspec.structs.asdict(load) | {"repeats": asked.repeats}


_PARTS: dict[str, Callable[[Asked, Settings, Embedded | None, Tell], Awaitable[BenchReport]]] = {
    "live": _live,
    "compare": _compare,
    "rebuild": _rebuild,
    "relay": _relay,
    "latency": _latency,
    "size": _size,
}
