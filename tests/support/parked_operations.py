"""Orders that have failed alike, and operations on them: what tests of operations begin with, and look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import Child, projectionist
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, shop
from tests.support.waiting import HANG_S

WHY = ("--reason", "the table is loaded")
RETRY = ("parked", "retry", "--cause", "failed", "--all", *WHY, "--wait", f"{HANG_S}", "--rate", "10000")


async def failed_orders(live: ConsumerHarness, number: int, *, text: str = "bad {}") -> Any:
    """A shop whose Orders have failed at their first event, so many of them in one group."""
    made = shop(live.stream)
    await live.migrate(made.Orders)
    await fail_more(live, made, number, text=text)
    return made


async def fail_more(
    live: ConsumerHarness, made: Any, number: int, *, text: str = "bad {}", first: int = 1
) -> None:
    """So many more, alike among themselves."""
    for n in range(first, first + number):
        said = text.format(n)
        made.trouble.poison.add(said)
        await live.publish(OrderNoted(said), f"o{n}", 1, id=f"bad-{n}")
    await live.settle(made.Orders)


async def attempts(live: ConsumerHarness) -> dict[str, int]:
    """How often each event that is parked was tried."""
    return dict(await inspection.rows(live, "parked", "id", "attempts"))


async def retried(live: ConsumerHarness) -> list[str]:
    """What the audit says was retried, in the order of events."""
    found = await inspection.rows(live, "audit", "object", action="retry")
    return sorted(one.removeprefix("Orders: order/") for (one,) in found)


async def begun_by_a_newer_version(live: ConsumerHarness) -> None:
    """An operation of a kind that this version does not know, on what is parked."""
    await live.pool.execute(
        f"insert into {SCHEMA}.operations (kind, chosen, who, reason, rate, patience_s, matched)"
        " values ('retry_letters', '{}', 'ann', 'why', 9, 0, 1)"
    )
    await live.pool.execute(
        f"insert into {SCHEMA}.operation_items"
        " (operation, place, alike, sample, judged, consumer, source, id, version, attempts)"
        f" select 1, 1, 1, 0, false, consumer, source, id, 0, 1 from {SCHEMA}.parked"
    )


async def silence(live: ConsumerHarness) -> None:
    """Have the last sign of life of all operations be long ago, as it is once their processes are gone."""
    await live.pool.execute(f"update {SCHEMA}.operations set beat = clock_timestamp() - interval '1 hour'")


async def lively(live: ConsumerHarness) -> None:
    """Have the last sign of life of all operations be ahead: no machine is too slow to see it."""
    await live.pool.execute(f"update {SCHEMA}.operations set beat = beat + interval '1 hour'")


@asynccontextmanager
async def operating(
    cli: Cli,
    *words: str,
    kill_at: Mapping[str, int] | None = None,
    pause_at: Mapping[str, int] | None = None,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Child]:
    """A command in a process of its own, which is killed or stopped at a moment."""
    whole = {"PROJECTIONIST_ACTOR": "ann"} | dict(env or {})
    async with projectionist(*words, cwd=cli.folder, env=whole, kill_at=kill_at, pause_at=pause_at) as child:
        yield child
