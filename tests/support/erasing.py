"""Erase as tests call it, and a look at everything that our tables hold."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from tests.support.consumer_harness import ConsumerHarness
from tests.support.retention import age, purge, sent
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced

from projectionist.core.operator import Act
from projectionist.core.settings.settings import Settings
from projectionist.projections import definition
from projectionist.runner.admin.erasure import Eraser, target_of
from projectionist.runner.admin.erasure_report import Erasure
from projectionist.runner.history.progress import PhaseProgress

ACT = Act("ann", "asked to be forgotten")
WORD = "c4nary"


async def history(live: ConsumerHarness, folder: Path, *classes: type) -> None:
    """One order whose first events are in files, the next in the inbox and parked ones behind a gap; and another."""
    await live.publish(OrderPlaced("ann", 10), "o1", 1, id="e1")
    await live.publish(OrderNoted(WORD), "o1", 2, id="e2")
    await live.publish(OrderPlaced("ann", 5), "o2", 1, id="e3")
    await live.settle(*classes)
    await age(live, 100)
    await purge(live, *classes, archive="files", archive_folder=str(folder))
    await purge(live, *classes, archive="table")
    await live.publish(OrderNoted(f"{WORD} again"), "o1", 3, id="e4")
    await live.publish(OrderPaid(), "o1", 4, id="e5")
    await live.publish(OrderNoted(f"{WORD} waits"), "o1", 6, id="e6")
    await live.settle(*classes, policy=msgspec.structs.replace(live.policy, payload="always"))
    await sent(live)


def contents(folder: Path) -> dict[Path, str]:
    """Return every file below a folder, and what is in it."""
    return {path: path.read_text() for path in folder.rglob("*") if path.is_file()}


async def erase(
    live: ConsumerHarness,
    *classes: type,
    aggregate: str | None = None,
    event: str | None = None,
    source: str | None = None,
    plan: bool = False,
    messages: bool = False,
    settings: Settings | None = None,
    folder: Path | None = None,
) -> Erasure:
    """Erase an aggregate or an event, by an app of these consumers; or say what that would be."""
    async with live.connected() as connection:
        target = await target_of(connection, SCHEMA, aggregate=aggregate, event=event, source=source)
        found = settings or live.settings
        views = [definition(cls) for cls in classes]
        eraser = Eraser(connection, live.nats, found, views, PhaseProgress(), folder)
        return await (eraser.plan(target) if plan else eraser.erase(target, ACT, messages=messages))


async def holding(live: ConsumerHarness, text: str) -> set[tuple[str, str]]:
    """Return which columns of our own tables hold a text, or its bytes: table and column."""
    tables = await live.fetch("select tablename::text from pg_tables where schemaname = $1", SCHEMA)
    found = set()
    for (name,) in tables:
        rows = await live.pool.fetch(f"select to_jsonb(t)::text as row from {SCHEMA}.{name} t")
        for column, value in (one for row in rows for one in json.loads(row["row"]).items()):
            written = json.dumps(value)
            if text in written or text.encode().hex() in written:
                found.add((name, column))
    return found


async def holders(live: ConsumerHarness, text: str) -> list[str]:
    """Return where in the database, read models included, a text stands: in a value, or in the bytes of one."""
    tables = await live.fetch(
        "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')"
    )
    found = []
    for (name,) in tables:
        rows = await live.pool.fetch(f"select to_jsonb(t)::text as row from {name} t")
        hits = [row["row"] for row in rows if text in row["row"] or text.encode().hex() in row["row"]]
        found += [f"{name}: {hit}" for hit in hits]
    return found
