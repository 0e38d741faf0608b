"""Statements of keys of several columns: the rows asked for, in one order of locks, by the primary key alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import date
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.keyed_lines import keyed
from tests.support.servers import Servers, Stream
from tests.support.waiting import eventually

from projectionist.projections import definition
from projectionist.projections.tables import ddl
from projectionist.projections.tables.row_statements import ReadModel, Row
from projectionist.projections.tables.table import Table

SCHEMA = "projectionist"
MANY = 50_000
SHOP = keyed(Stream("SHOP"))
KEYS = st.tuples(
    st.uuids(),
    st.dates(min_value=date(1, 1, 1)),
    st.text(
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4
    ),  # of several lengths in UTF-8
    st.sampled_from(["a", "B", "ä", "z", "￿", "😀", ""]),
)


def table_of(cls: type) -> Table:
    table = definition(cls).table
    assert table is not None
    return table


LEDGER, LINES = table_of(SHOP.Ledger), table_of(SHOP.Lines)


def ledger_row(key: tuple[UUID, date, str, str], pieces: int) -> Row:
    """A row in the order of the fields, which is not that of the key."""
    batch, day, sku, warehouse = key
    return (warehouse, sku, day, batch, pieces)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.dictionaries(KEYS, st.integers(0, 9), min_size=1, max_size=8), gone=st.integers(0, 8))
def test_rows_are_read_locked_written_and_deleted_by_their_whole_key(
    session: Session, rows: dict[Any, int], gone: int
) -> None:
    model, key = ReadModel(LEDGER, SCHEMA, 1), ReadModel(LEDGER, SCHEMA, 1).key
    session.execute(f"truncate {ddl.physical(LEDGER, SCHEMA, 1)}")
    made = {one: ledger_row(one, pieces) for one, pieces in sorted(rows.items())}
    returned = session.fetch(model.insert_absent, *model.arguments(made.values()))
    session.fetch(model.upsert, *model.arguments([ledger_row(one, 10 + n) for one, n in rows.items()]))
    locked = session.fetch(model.load_locked, *key.arrays(made))

    assert len(returned) == len(made)
    assert [key.of(row) for row in locked] == sorted(made), "PostgreSQL and Python order keys alike"
    assert {key.of(row): row[-1] for row in locked} == {one: 10 + n for one, n in rows.items()}
    assert session.keys_in_order() == sorted(made)

    dropped = sorted(made)[:gone]
    session.fetch(model.delete, *key.arrays(dropped))
    assert session.keys_in_order() == sorted(made)[len(dropped) :]
    assert {key.of(row) for row in session.fetch(model.load, *key.arrays(made))} == set(
        sorted(made)[len(dropped) :]
    )


def test_keys_are_found_by_all_their_columns_and_none_by_joined_texts(session: Session) -> None:
    model = ReadModel(LEDGER, SCHEMA, 1)
    one = (UUID(int=1), date(2026, 1, 1), "a", "b/c")
    other = (UUID(int=1), date(2026, 1, 1), "a/b", "c")
    session.fetch(model.upsert, *model.arguments([ledger_row(one, 1)]))

    assert session.fetch(model.load, *model.key.arrays([other])) == []
    assert session.fetch(model.load, *model.key.arrays([])) == []


class Session:
    """One connection, driven from tests that are not async."""

    def __init__(self, runner: asyncio.Runner, url: str) -> None:
        self._runner = runner
        self._connection = runner.run(asyncpg.connect(url))

    def execute(self, statement: str) -> None:
        self._runner.run(self._connection.execute(statement))

    def fetch(self, statement: str, *given: Any) -> list[Row]:
        return [tuple(row) for row in self._runner.run(self._connection.fetch(statement, *given))]

    def keys_in_order(self) -> list[Any]:
        names = ", ".join(LEDGER.key.names if LEDGER.key else ())
        return self.fetch(f"select {names} from {ddl.physical(LEDGER, SCHEMA, 1)} order by {names}")

    def close(self) -> None:
        self._runner.run(self._connection.close())


@pytest.fixture
def session(database: str) -> Any:
    with asyncio.Runner() as runner:
        session = Session(runner, database)
        session.execute(ddl.create_table(LEDGER, SCHEMA, 1))
        yield session
        session.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grown(servers: Servers) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection that prepared the statements on an empty table, which was filled after that."""
    database = servers.make_database()
    connection = await asyncpg.connect(database)
    target, model = ddl.physical(LINES, SCHEMA, 1), ReadModel(LINES, SCHEMA, 1)
    await connection.execute(ddl.create_table(LINES, SCHEMA, 1))
    await connection.execute(f"alter table {target} set (autovacuum_enabled = false)")
    await connection.execute("set plan_cache_mode = force_generic_plan")
    for name in ("load", "load_locked", "delete"):
        await connection.execute(f"prepare {name} (text[], bigint[]) as {getattr(model, name)}")
        await connection.execute(f"explain execute {name} ('{{0}}', '{{1}}')")
    # Half of the rows are lines of one order: whoever reads a prefix reads half of the table.
    await connection.execute(
        f"insert into {target} (order_id, line_no) select case when n % 2 = 0 then '0' else n::text end, n "
        f"from generate_series(1, {MANY}) n"
    )
    yield connection
    await connection.close()
    servers.drop_database(database)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["load", "load_locked", "delete"])
async def test_a_statement_prepared_on_an_empty_table_reads_only_its_rows_of_a_full_one(
    grown: asyncpg.Connection[asyncpg.Record], name: str
) -> None:
    transaction = grown.transaction()
    await transaction.start()
    try:
        text = await grown.fetchval(
            f"explain (analyze, format json) execute {name} ('{{0,0,77}}', '{{4,40000,77}}')"
        )
    finally:
        await transaction.rollback()

    (plan,) = json.loads(text)
    assert "Seq Scan" not in re.findall(r'"Node Type": "([^"]+)"', text), text
    assert _met(plan["Plan"]) < 30, text


def _met(plan: dict[str, Any]) -> int:
    thrown = sum(value for name, value in plan.items() if name.startswith("Rows Removed"))
    own = (plan["Actual Rows"] + thrown) * plan["Actual Loops"]
    return int(own + sum(_met(inner) for inner in plan.get("Plans", ())))


@pytest.mark.asyncio
async def test_two_sessions_lock_rows_in_one_order_whatever_order_they_ask_in(database: str) -> None:
    model = ReadModel(LINES, SCHEMA, 1)
    keys = [(f"o{n % 3}", n) for n in range(30)]
    async with asyncpg.create_pool(database, min_size=3, max_size=3) as pool:
        await pool.execute(ddl.create_table(LINES, SCHEMA, 1))
        await pool.execute(model.upsert, *model.arguments([(*key, "x", 1) for key in keys]))
        async with pool.acquire() as first, pool.acquire() as second:
            async with first.transaction():
                await first.fetch(model.load_locked, *model.key.arrays([min(keys)]))
                pid = second.get_server_pid()
                waiting = asyncio.create_task(_lock(second, model, list(reversed(keys))))
                await eventually(lambda: _waits(pool, pid))
                # The second waits for the first row of all, and so holds none that the first may want.
                await first.fetch(model.load_locked, *model.key.arrays(keys))
            assert await waiting == sorted(keys)


async def _lock(connection: Any, model: ReadModel, keys: list[Any]) -> list[Any]:
    async with connection.transaction():
        return [
            model.key.of(row) for row in await connection.fetch(model.load_locked, *model.key.arrays(keys))
        ]


async def _waits(pool: Any, pid: int) -> bool:
    return bool(await pool.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid))
