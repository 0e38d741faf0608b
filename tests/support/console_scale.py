"""A database of any size for the console, made by a few statements, and what each page takes over it.

`make console-scale` fills one of ten million events, serves a console over it, and looks at each page. No runner has
written what is filled: where aggregates stand, what is parked and what is counted agree, and nothing else has to.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from urllib.parse import urlencode

import asyncpg
import msgspec
from tests.support.console_client import serving
from tests.support.servers import Stream
from tests.support.shop import shop

from projectionist.core.postgres import connections
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Postgres, Settings
from projectionist.migrations import migrate, optional_indexes
from projectionist.ops.embedded.temporary import temporary
from projectionist.runner import App

SCHEMA = "projectionist"
FILL = Path(__file__).with_suffix(".sql")
VERSIONS = 10
"""So many events each aggregate has."""
BEHIND = 4
"""So many parked events a held aggregate has, the failed one among them."""


class Size(msgspec.Struct, frozen=True):
    """How much there is."""

    inbox: int
    parked: int
    consumers: int
    hours: int = 24 * 31
    """Of counters that were not merged yet."""


WHOLE = Size(inbox=10_000_000, parked=100_000, consumers=200)
SMALL = Size(inbox=20_000, parked=2_000, consumers=20, hours=24)


async def fill(url: str, size: Size) -> None:
    """Fill a migrated database, and let it have its statistics."""
    connection = await asyncpg.connect(url)
    try:
        given = {"s": SCHEMA, "versions": VERSIONS, "behind": BEHIND, **msgspec.structs.asdict(size)}
        await connection.execute(FILL.read_text().format(**given))
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()


def pages(size: Size) -> dict[str, str]:
    """Return the pages that read something that grows, by what is measured."""
    known = {"consumer": "Consumer001", "source": "urn:shop"}
    held = size.parked * 9 // 10 - 1
    return {
        "overview": "/",
        "consumer": "/consumer?name=Consumer001",
        "waiting": "/waiting",
        "waiting, of a consumer": "/waiting?consumer=Consumer001",
        "event that waits": f"/waiting/event?{urlencode(known | {'id': f'held-{held}'})}",
        "quarantine": "/quarantine",
        "outbox": "/outbox",
        "outbox, a group": "/outbox/group?state=dead&provider=email",
        "aggregate": f"/aggregate?{urlencode({'name': f'order/{size.inbox // VERSIONS // 2}'})}",
        "aggregate that waits": f"/aggregate?{urlencode({'name': f'held/{held // BEHIND}'})}",
        "incidents": "/incidents",
        "audit": "/audit",
        "audit, of a consumer": "/audit?consumer=Consumer001",
        "streams": "/streams",
        "map": "/map",
        "rebuilds": "/rebuilds",
        "preview": "/preview",
        "search, nothing": "/search?q=nothing-has-this-name",
    }


async def an_event(connection: asyncpg.Connection[asyncpg.Record], column: str = "id") -> str:
    """Return what one settled event has in a column."""
    return str(await connection.fetchval(f"select {column} from {SCHEMA}.inbox where consumer = 2 limit 1"))


async def a_group(connection: asyncpg.Connection[asyncpg.Record], cause: str, of_type: str) -> str:
    """Return the digest of the largest group of a cause and type."""
    sql = f"""select alike from {SCHEMA}.parked_counts where consumer = 1 and cause = $1 and type = $2
        group by alike order by sum(events) desc limit 1"""
    return str(await connection.fetchval(sql, cause, of_type))


async def told_by(url: str, size: Size) -> dict[str, str]:
    """Return the pages of things whose names the database has made."""
    connection = await asyncpg.connect(url)
    try:
        event, traceparent = await an_event(connection), await an_event(connection, "traceparent")
        found = pages(size) | {
            "journey": f"/journey?{urlencode({'id': event, 'source': 'urn:shop'})}",
            "search, an event": f"/search?q={event}",
            "search, a trace": f"/search?q={traceparent.split('-')[1]}",
            "search, a flow": "/search?q=flow-7",
        }
        for cause in ("failed", "blocked", "gap"):
            alike = await a_group(connection, cause, "order.0" if cause == "gap" else "order.1")
            chosen = urlencode(
                {
                    "consumer": "Consumer001",
                    "cause": cause,
                    "type": "order.0" if cause == "gap" else "order.1",
                    "error": alike,
                }
            )
            found[f"group, {cause}"] = f"/waiting/group?{chosen}"
            if cause != "blocked":
                found[f"before a retry, {cause}"] = f"/act/parked-retry?{chosen}"
                found[f"before a discard, {cause}"] = f"/act/parked-discard?{chosen}"
        return found
    finally:
        await connection.close()


async def measure(nats_url: str, url: str, size: Size, times: int) -> dict[str, Sequence[float]]:
    """Return how many milliseconds each page takes its server, from request to answer, on loopback."""
    postgres = Postgres(url=Url(url), correlation_index=True, trace_index=True)
    settings = Settings(nats=Nats(url=(Url(nats_url),)), postgres=postgres)
    found: dict[str, Sequence[float]] = {}
    async with serving(App(projections=[shop(Stream("SHOP")).Orders]), settings) as served:
        ann = await served.logged_in()
        for name, path in (await told_by(url, size)).items():
            took = []
            for _ in range(times + 1):
                began = perf_counter()
                answer = await ann.http.get(path)
                took.append((perf_counter() - began) * 1000)
                assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
            found[name] = took[1:]
    return found


def told(line: str) -> None:
    """Say it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _main(url: str, nats_url: str, size: Size) -> None:
    postgres = Postgres(url=Url(url))
    connection = await connections.connect(postgres, application_name="console scale")
    await migrate(connection, SCHEMA)
    for statement in await optional_indexes.pending(connection, SCHEMA, correlation=True, trace=True):
        await connection.execute(statement)
    began = perf_counter()
    await fill(url, size)
    bytes_ = await connection.fetchval("select pg_database_size(current_database())")
    await connection.close()
    told(
        f"{size.inbox:,} events, {size.parked:,} parked, {size.consumers} consumers: {bytes_ / 1e9:.1f} GB, "
        f"filled in {perf_counter() - began:.0f} s; milliseconds of 20 looks: least, median, most",
    )
    for name, took in (await measure(nats_url, url, size, 20)).items():
        told(f"| {name} | {min(took):.0f} | {statistics.median(took):.0f} | {max(took):.0f} |")


if __name__ == "__main__":
    with temporary(durable=True) as servers:
        at = servers.up()
        events = int(sys.argv[1]) if sys.argv[1:] else WHOLE.inbox
        asyncio.run(_main(at.postgres_url, at.nats_url, msgspec.structs.replace(WHOLE, inbox=events)))
