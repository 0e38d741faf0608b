"""A database of any size for the console, made by a few statements, and what each page takes over it.

`make console-scale` fills one of ten million events, serves a console over it, and looks at each page. No runner has
written what is filled: where aggregates stand, what is parked and what is counted agree, and nothing else has to.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from unittest.mock import patch
from urllib.parse import urlencode

import asyncpg
import msgspec
from tests.support.console_client import Browser, serving
from tests.support.servers import Stream
from tests.support.shop import shop

from projectionist.bench.meters import family_s
from projectionist.console import application
from projectionist.console.snapshot import Onlooker
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
TIMES = 10
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
    """Fill a migrated database, let it have its statistics, and let everything be written."""
    connection = await asyncpg.connect(url)
    try:
        given = {"s": SCHEMA, "versions": VERSIONS, "behind": BEHIND, **msgspec.structs.asdict(size)}
        await connection.execute(FILL.read_text().format(**given))
        await connection.execute("vacuum analyze")
        await connection.execute("checkpoint")
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


class Taken(msgspec.Struct, frozen=True):
    """What a page takes, in milliseconds."""

    console: float
    """Processor time of the console, and of the client that asks, on the average."""
    postgres: float
    """Processor time of the server and all its processes."""
    least: float
    median: float
    """From request to answer, which depends on what else the machine does."""


async def measure(nats_url: str, url: str, size: Size, times: int, server: int) -> dict[str, Taken]:
    """Return what each page takes, with a look of its own each time; `server` is PostgreSQL's first process."""
    postgres = Postgres(url=Url(url), correlation_index=True, trace_index=True)
    settings = Settings(nats=Nats(url=(Url(nats_url),)), postgres=postgres)
    found: dict[str, Taken] = {}
    with patch.object(application, "Onlooker", partial(Onlooker, every_s=0)):
        async with serving(App(projections=[shop(Stream("SHOP")).Orders]), settings) as served:
            ann = await served.logged_in()
            for name, path in (await told_by(url, size)).items():
                await seen(ann, path)
                before, took = (process_time(), family_s(server)), []
                for _ in range(times):
                    began = perf_counter()
                    await seen(ann, path)
                    took.append((perf_counter() - began) * 1000)
                console, rest = process_time() - before[0], family_s(server) - before[1]
                each = 1000 / times
                found[name] = Taken(console * each, rest * each, min(took), statistics.median(took))
    return found


async def seen(browser: Browser, path: str) -> None:
    """Load a page."""
    answer = await browser.http.get(path)
    assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"


def told(line: str) -> None:
    """Say it at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _main(url: str, nats_url: str, size: Size, server: int) -> None:
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
        f"filled in {perf_counter() - began:.0f} s; milliseconds of {TIMES} looks: processor time of the console, of "
        f"PostgreSQL, of both; least and median from request to answer; load {os.getloadavg()[0]:.0f}",
    )
    for name, one in (await measure(nats_url, url, size, TIMES, server)).items():
        both = one.console + one.postgres
        told(
            f"| {name} | {one.console:.0f} | {one.postgres:.0f} | {both:.0f} | {one.least:.0f} | {one.median:.0f} |"
        )


if __name__ == "__main__":
    with temporary(durable=True) as servers:
        at = servers.up()
        events = int(sys.argv[1]) if sys.argv[1:] else WHOLE.inbox
        whole = msgspec.structs.replace(WHOLE, inbox=events)
        asyncio.run(_main(at.postgres_url, at.nats_url, whole, servers.postgres.pid()))
