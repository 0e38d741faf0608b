"""`bench relay`: the relay beside its twin and a peer, in rounds, each on a schema of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from secrets import token_hex
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.bench.children import LOOK_S, BenchError, Child, running
from projectionist.bench.figures import USED, costs_of, used
from projectionist.bench.scene import STUB, Scene
from projectionist.bench.stub import stub
from projectionist.bench.trial import PATIENCE_S, Cost
from projectionist.core.identifiers import quoted
from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.settings import Nats
from projectionist.migrations import migrate
from projectionist.ops.cli.output import table
from projectionist.outbox.intents.staging import unpack_all

if TYPE_CHECKING:
    from projectionist.bench.ground import Ground
    from projectionist.bench.meters import Used
    from projectionist.core.settings.settings import Settings

TITLES = {
    "product": "product: projectionist relay, NATS provider, every guarantee on",
    "twin": "twin: lease a batch, publish it, settle it",
    "http": "product: HTTP provider, a server on this machine that says yes at once; a fifth of the intents",
    "pgqueuer": "pgqueuer, as many jobs that do nothing",
}
COMMANDS = {
    "product": ("relay_product", "nats"),
    "twin": ("relay_twin",),
    "http": ("relay_product", "http"),
    "pgqueuer": ("relay_peer",),
}
HTTP_SHARE = 5


class Backlog(msgspec.Struct, frozen=True):
    """What each contender is to send."""

    intents: int
    aggregates: int
    payload: int


class RelayResult(msgspec.Struct, frozen=True):
    """For each contender the cost of each round."""

    costs: dict[str, list[Cost]]
    skipped: dict[str, str]

    def ratios(self, name: str) -> list[float]:
        """Return the product's rate by that of another in the same round."""
        pairs = zip(self.costs["product"], self.costs.get(name, ()), strict=False)
        return [product.rate / other.rate for product, other in pairs]


async def relay(ground: Ground, backlog: Backlog, repeats: int, tell: Callable[[str], None]) -> RelayResult:
    """Measure; `tell` hears what is being done."""
    skipped = _skipped(ground.settings.nats)
    names = [name for name in TITLES if name not in skipped]
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    for number in range(repeats):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            async with _scene(ground) as scene:
                cost = await (_peer if name == "pgqueuer" else _sent)(ground, scene, name, backlog)
            costs[name].append(cost)
            tell(f"round {number + 1} of {repeats}: {name} {cost.rate:,.0f} intents/s")
    return RelayResult(costs, skipped)


def document(measured: RelayResult) -> dict[str, Any]:
    """Return everything, for programs: `relay.ratio_NAME`, and what each contender cost."""
    found: dict[str, Any] = {}
    for name in TITLES:
        if name != "product":
            ratios = measured.ratios(name)
            found[f"ratio_{name}"] = round(median(ratios), 3) if ratios else None
            found[f"ratio_{name}_spread"] = [round(min(ratios), 3), round(max(ratios), 3)] if ratios else []
    found |= {name: costs_of(costs, "intents") for name, costs in measured.costs.items()}
    return {"relay": found | {"skipped": measured.skipped}}


def text(measured: RelayResult, backlog: Backlog) -> str:
    """Return everything, for people."""
    above, below = USED
    lines = [("ratio", "spread", "intents/s", *above, "RSS MB", ""), ("", "", "", *below, "", "")]
    for name, costs in measured.costs.items():
        own, ratios = costs_of(costs, "intents"), measured.ratios(name)
        product = name == "product"
        lines.append(
            (
                "" if product else f"{median(ratios):.2f}",
                "" if product else f"{min(ratios):.2f}-{max(ratios):.2f}",
                f"{own['intents_per_s']:,.0f}",
                *used(own),
                f"{own['rss_mb']:.0f}",
                TITLES[name],
            )
        )
    return "\n".join(
        (
            f"{backlog.intents:,} intents of {backlog.payload} bytes over {backlog.aggregates:,} aggregates",
            "ratio: the product's intents/s by those of the line, in the same round",
            "",
            table(lines),
            *(f"{TITLES[name]}: left out, {why}" for name, why in measured.skipped.items()),
            "",
        )
    )


def _skipped(nats: Nats) -> dict[str, str]:
    if not nats.takes_url_alone:
        raise BenchError("the twin is connected by a URL alone, and this broker asks for more")
    if find_spec("pgqueuer") is None:
        return {"pgqueuer": "it is not installed: pip install 'projectionist[bench]'"}
    return {}


@asynccontextmanager
async def _scene(ground: Ground) -> AsyncIterator[Scene]:
    scene = Scene(ground.stream, f"bench_{token_hex(4)}")
    try:
        await migrate(ground.connection, scene.schema)
        yield scene
    finally:
        await ground.connection.execute(f"drop schema if exists {quoted(scene.schema)} cascade")


async def _sent(ground: Ground, scene: Scene, name: str, backlog: Backlog) -> Cost:
    """Run one that sends the intents of the table: measured by when they were settled, by the database's clock."""
    sql = Statements("projectionist.bench", scene.schema)
    intents = backlog.intents // HTTP_SHARE if name == "http" else backlog.intents
    sizes = max(intents, 1), backlog.aggregates, backlog.payload
    await ground.connection.execute(sql["relay_fill"], *sizes, scene.schema)
    if name == "twin":  # it knows only what is in the queue; to open it is part of what the product does
        await unpack_all(ground.connection, Statements("projectionist.outbox", scene.schema))
    await ground.settle_down()
    found: list[Used] = []
    async with (
        stub() as url,
        ground.meter.over(found.append),
        _contender(ground.settings, scene, name, url=url) as child,
    ):
        await _until(child, lambda: _sent_all(ground, sql))
    row = await ground.connection.fetchrow(sql["relay_took"])
    assert row is not None
    return Cost(
        events=row["events"], seconds=row["seconds"], cpu_s=child.cpu_s, rss_mb=child.rss_mb, used=found[0]
    )


async def _peer(ground: Ground, scene: Scene, name: str, backlog: Backlog) -> Cost:
    """Run the peer, which measures itself: its jobs alone, not their writing."""
    await ground.settle_down()
    found: list[Used] = []
    async with (
        ground.meter.over(found.append),
        _contender(ground.settings, scene, name, backlog.intents, backlog.payload) as child,
    ):
        await _until(child, lambda: _said(child))
        took = msgspec.json.decode(child.said().splitlines()[-1])["seconds"]
    return Cost(events=backlog.intents, seconds=took, cpu_s=child.cpu_s, rss_mb=child.rss_mb, used=found[0])


def _contender(settings: Settings, scene: Scene, name: str, *sizes: int, url: str = "") -> Any:
    module, *arguments = COMMANDS[name]
    command = ("-m", f"projectionist.bench.{module}", *arguments, *map(str, sizes))
    return running(settings, scene, command, {STUB: url} if url else None)


async def _until(child: Child, done: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 10 * PATIENCE_S
    while not await done():
        child.check()
        if time.monotonic() > deadline:
            raise BenchError(f"a contender does not get done: {child.said()}")
        await asyncio.sleep(LOOK_S)


async def _sent_all(ground: Ground, sql: Statements) -> bool:
    return not await ground.connection.fetchval(sql["relay_left"])


async def _said(child: Child) -> bool:
    return '"seconds"' in child.said()
