"""Statements of rows below prefixes: those asked for and no others, by the primary key, locked in one order."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from tests.support.keyed_lines import keyed
from tests.support.servers import Servers, Stream
from tests.support.waiting import eventually

from projectionist.projections import definition
from projectionist.projections.tables import ddl
from projectionist.projections.tables.row_statements import ReadModel
from projectionist.projections.tables.table import Table
from projectionist.projections.tables.table_key import MOST_ROWS

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEMA = "projectionist"
SHOP = keyed(Stream("SHOP"))
MANY = 40_000


def table_of(cls: type) -> Table:
    table = definition(cls).table
    assert table is not None
    return table


LINES, LEDGER = table_of(SHOP.Lines), table_of(SHOP.Ledger)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(servers: Servers) -> AsyncIterator[str]:
    """A database of this module."""
    made = servers.make_database()
    yield made
    servers.drop_database(made)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grown(database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection that prepared the statements on an empty table, which was filled after that."""
    connection = await asyncpg.connect(database)
    target, model = ddl.physical(LINES, SCHEMA, 1), ReadModel(LINES, SCHEMA, 1)
    await connection.execute(ddl.create_table(LINES, SCHEMA, 1))
    await connection.execute(f"alter table {target} set (autovacuum_enabled = false)")
    await connection.execute("set plan_cache_mode = force_generic_plan")
    for name in ("below", "below_locked"):
        await connection.execute(f"prepare {name} (text[], bigint[]) as {getattr(model, name)}")
        await connection.execute(f"explain execute {name} ('{{0}}', '{{1}}')")
    # Half of the rows are lines of one order, others have four.
    await connection.execute(
        f"insert into {target} (order_id, line_no) select case when n % 2 = 0 then '0' else (n / 8)::text end, n "
        f"from generate_series(1, {MANY}) n"
    )
    yield connection
    await connection.close()


@pytest.mark.parametrize("name", ["below", "below_locked"])
async def test_a_statement_prepared_on_an_empty_table_reads_only_what_is_below(
    grown: asyncpg.Connection[asyncpg.Record], name: str
) -> None:
    model = ReadModel(LINES, SCHEMA, 1)
    arrays = model.key.arrays([("0", 40), ("0", 41)], [("77",), ("no",)])
    async with grown.transaction():
        given = ", ".join(f"'{{{','.join('null' if v is None else str(v) for v in one)}}}'" for one in arrays)
        text = await grown.fetchval(f"explain (analyze, format json) execute {name} ({given})")
        rows = await grown.fetch(getattr(model, name), *arrays)

    (plan,) = json.loads(text)
    assert "Seq Scan" not in re.findall(r'"Node Type": "([^"]+)"', text), text
    assert _met(plan["Plan"]) < 80, text
    assert [model.key.of(tuple(row)) for row in rows] == [
        ("0", 40),
        *(("77", no) for no in (617, 619, 621, 623)),
    ]


async def test_one_row_more_is_read_than_an_event_may_have(
    grown: asyncpg.Connection[asyncpg.Record],
) -> None:
    model = ReadModel(LINES, SCHEMA, 1)

    rows = await grown.fetch(model.below, *model.key.arrays((), [("0",)]))
    numbers = [row["line_no"] for row in rows]
    assert (len(numbers), numbers) == (MOST_ROWS + 1, sorted(numbers))


def _met(plan: dict[str, Any]) -> int:
    thrown = sum(value for name, value in plan.items() if name.startswith("Rows Removed"))
    own = (plan["Actual Rows"] + thrown) * plan["Actual Loops"]
    return int(own + sum(_met(inner) for inner in plan.get("Plans", ())))


async def test_prefixes_of_several_lengths_are_read_in_one_pass(database: str) -> None:
    model = ReadModel(LEDGER, SCHEMA, 1)
    day, batches = "2026-01-01", [f"00000000-0000-0000-0000-00000000000{n}" for n in range(3)]
    connection = await asyncpg.connect(database)
    await connection.execute(ddl.create_table(LEDGER, SCHEMA, 1))
    await connection.execute(
        f"insert into {ddl.physical(LEDGER, SCHEMA, 1)} (batch, day, sku, warehouse) "
        "select b::uuid, d::date, s, w from unnest($1::text[]) b, unnest(array['2026-01-01', '2026-01-02']) d, "
        "unnest(array['a', 'b']) s, unnest(array['x', 'y']) w",
        batches,
    )
    target = ddl.physical(LEDGER, SCHEMA, 1)
    everything = sorted(
        map(tuple, await connection.fetch(f"select batch, day, sku, warehouse from {target}"))
    )
    first, second, third = sorted({key[0] for key in everything})
    one_day = min(key[1] for key in everything)
    asked = [(first,), (second, one_day), (third, one_day, "a")]
    whole = (third, one_day, "b", "y")

    rows = await connection.fetch(model.below_locked, *model.key.arrays([whole], asked))
    await connection.close()
    assert str(one_day) == day
    assert [model.key.of(tuple(row)) for row in rows] == [
        key for key in everything if key == whole or any(key[: len(one)] == one for one in asked)
    ]


async def test_two_sessions_lock_rows_and_prefixes_in_one_order(
    database: str, grown: asyncpg.Connection[asyncpg.Record]
) -> None:
    """One wants single rows and the other all below: whoever comes later waits for the first row, holding none."""
    model = ReadModel(LINES, SCHEMA, 1)
    single = [("3", 25), ("4", 39)]
    async with (
        asyncpg.create_pool(database, min_size=3, max_size=3) as pool,
        pool.acquire() as first,
        pool.acquire() as second,
    ):
        async with first.transaction():
            await first.fetch(model.load_locked, *model.key.arrays(single[:1]))
            pid = second.get_server_pid()
            waiting = asyncio.create_task(_lock(second, model, [("4",), ("3",)]))
            await eventually(lambda: _waits(pool, pid))
            await first.fetch(model.load_locked, *model.key.arrays(single))
        found = await waiting
    assert found == sorted(found)
    assert len(found) == 8


async def _lock(connection: Any, model: ReadModel, prefixes: list[tuple[str]]) -> list[Any]:
    async with connection.transaction():
        rows = await connection.fetch(model.below_locked, *model.key.arrays((), prefixes))
        return [model.key.of(tuple(row)) for row in rows]


async def _waits(pool: Any, pid: int) -> bool:
    return bool(await pool.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid))


async def test_rows_that_are_upserted_are_found_below_their_prefix(database: str) -> None:
    model = ReadModel(LINES, SCHEMA, 1)
    connection = await asyncpg.connect(database)
    async with connection.transaction():
        await connection.execute(model.upsert, *model.arguments([("new", no, "a", 1) for no in (3, 1, 2)]))
        rows = await connection.fetch(model.below, *model.key.arrays([("new", 2)], [("new",)][:0]))
        below = await connection.fetch(model.below, *model.key.arrays((), [("new",)]))
    await connection.close()
    assert ([row["line_no"] for row in rows], [row["line_no"] for row in below]) == ([2], [1, 2, 3])
