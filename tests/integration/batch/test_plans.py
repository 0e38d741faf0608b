"""Hot statements keep using their indexes when tables that were empty at their preparation have grown."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from tests.support.servers import SCHEMA, Stream
from tests.support.shop import shop

from projectionist.core.postgres.statements import Statements
from projectionist.projections import definition
from projectionist.projections.tables.row_statements import ReadModel
from projectionist.runner.read_models.migrate import ReadModels

MANY = 200_000

FILL = """
    insert into {s}.inbox (consumer, source, id, state, incarnation, seq, subject, type, event_schema,
        aggregate, version, hash, batch, received)
    select 1, 'shop', 'id' || n, 'applied', 1, n, 's', 't', 1, 'order/' || n / 10, n % 10 + 1, '\\x00', 1, now()
    from generate_series(1, {many}) n;
    insert into {s}.positions (consumer, aggregate, version) select 1, 'order/' || n, 10
    from generate_series(1, {many}) n;
    insert into {s}.parked (consumer, source, id, cause, aggregate, version, ordered, incarnation, seq,
        subject, type, event_schema, hash)
    select 1, 'shop', 'id' || n, 'gap', 'order/' || n / 10, n % 10 + 12, n % 50 > 0, 1, n, 's', 't', 1, '\\x00'
    from generate_series(1, {many}) n;
    insert into {s}.decisions (consumer, kind, aggregate, version, actor, reason)
    select 1, 'skip', 'order/' || n, 1, 'a', 'b' from generate_series(1, {many} / 10) n;
    insert into {s}.intents (key, consumer, source, id, slot, class, provider, destination, on_dead, body, hash)
    select 'key' || n, 1, 'shop', 'id' || n, 's', 'c', 'p', 'd', 'pass', '', ''
    from generate_series(1, {many}) n;
    insert into {s}.orders__g1 (order_id) select n::text from generate_series(1, {many}) n;
"""

IDS = ["id5", "id77777"]
AGGREGATES = ["order/5", "order/7777"]

HOT: dict[str, tuple[Any, ...]] = {
    "select_inbox_by_identity": (1, ["shop", "shop"], IDS),
    "lock_positions": (1, AGGREGATES),
    "select_parked_successors": (1, AGGREGATES, [10, 10], [500, 500], 1 << 24),
    "select_payload_references": (1, AGGREGATES, 100),
    "select_parked_by_version": (1, AGGREGATES, [12, 13]),
    "select_inbox_by_version": (1, AGGREGATES, [3, 4]),
    "select_skipped_ranges": (1, AGGREGATES),
    "select_due_aggregates": (1, 200),
    "has_due_gaps": (1,),
    "lock_due_gaps": (1, 1_000),
    "lock_aggregates_without_baseline": (1, AGGREGATES),
    "postpone_due_gaps": (1, AGGREGATES, 0.5),
    "select_due_unordered_events": (1, 200),
    "lock_due_unordered_events": (1, ["shop"], IDS),
    "delete_parked_events": (1, "shop", IDS),
    "update_inbox_state": (1, "shop", IDS, "applied", None, 7),
    "select_head_event": (1, "order/5"),
    "select_parked_event": (1, "shop", "id5"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grown(servers: Any) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection that prepared every hot statement on empty tables, which were filled after that."""
    database = servers.make_database()
    connection = await asyncpg.connect(database)
    one = definition(shop(Stream("SHOP")).Orders)
    models = ReadModels(connection, SCHEMA)
    await models.apply([one], await models.plan([one]))
    await connection.execute("set plan_cache_mode = force_generic_plan")
    for name, sql in _statements():
        prepared = await connection.prepare(sql)
        types = ", ".join(
            parameter.name[:-2] + "[]" if parameter.kind == "array" else parameter.name
            for parameter in prepared.get_parameters()
        )
        await connection.execute(f'prepare "{name}" ({types}) as {sql}')
        await connection.execute(f'explain execute "{name}" ({_arguments(name)})')
    # No statistics, and no autovacuum that brings any: the plans have to be good without.
    for table in ("inbox", "positions", "parked", "decisions", "intents", "orders__g1"):
        await connection.execute(f"alter table {SCHEMA}.{table} set (autovacuum_enabled = false)")
    await connection.execute(FILL.replace("{s}", SCHEMA).replace("{many}", str(MANY)))
    yield connection
    await connection.close()
    servers.drop_database(database)


def _statements() -> Iterator[tuple[str, str]]:
    statements = Statements("projectionist.runner", SCHEMA)
    yield from ((name, statements[name]) for name in HOT)
    table = definition(shop(Stream("SHOP")).Orders).table
    assert table is not None
    model = ReadModel(table, SCHEMA, 1)
    yield from (("load", model.load), ("load_locked", model.load_locked), ("delete_rows", model.delete))


def _arguments(name: str) -> str:
    return ", ".join(_literal(value) for value in HOT.get(name, (["5", "77777"],)))


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return "'{" + ",".join(str(one) for one in value) + "}'"
    return f"'{value}'"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", [*HOT, "load", "load_locked", "delete_rows"])
async def test_a_statement_prepared_on_an_empty_table_reads_a_full_one_by_index(
    grown: asyncpg.Connection[asyncpg.Record], name: str
) -> None:
    transaction = grown.transaction()
    await transaction.start()
    try:
        text = await grown.fetchval(f'explain (analyze, format json) execute "{name}" ({_arguments(name)})')
    finally:
        await transaction.rollback()
    (plan,) = json.loads(text)

    assert "Seq Scan" not in re.findall(r'"Node Type": "([^"]+)"', text), text
    assert _read(plan["Plan"]) < 1_000, text


def _read(plan: dict[str, Any]) -> int:
    """The rows a plan touched, those it threw away included."""
    thrown = sum(value for key, value in plan.items() if key.startswith("Rows Removed"))
    own = (plan["Actual Rows"] + thrown) * plan["Actual Loops"]
    return int(own + sum(_read(inner) for inner in plan.get("Plans", ())))
