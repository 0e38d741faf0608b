"""Statements of the sweep, planned on empty tables and run on large ones: they touch what they need and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA

from projectionist.core.postgres.statements import Statements

pytestmark = pytest.mark.asyncio

AGGREGATES, EACH = 20_000, 10
ASKED = "array[" + ",".join(f"'order/{n * 100}'" for n in range(1, 101)) + "]"
CASES = {
    "select_parked_successors": f"1, {ASKED}, array_fill(0::bigint, array[100]), array_fill(5, array[100]), 1000000",
    "select_payload_references": f"1, {ASKED}, 500",
    "select_aggregates_without_baseline": f"1, {ASKED}",
    "has_aggregates_without_first_event": "1",
    "select_quarantine_to_reread": "1, 100, 1000000",
    "lock_released_quarantine": f"1, 1, array[{','.join(map(str, range(1, 101)))}]",
}
MOST_ROWS = 1_000
"""A hundred aggregates with ten parked events each; a scan of a whole table meets two hundred times as many."""

FILL = (
    f"""insert into {SCHEMA}.positions (consumer, aggregate, head, parked, due)
        select 1, 'order/' || n, (array['gap', 'draining'])[n % 2 + 1], {EACH}, clock_timestamp()
        from generate_series(1, {AGGREGATES}) n""",
    f"""insert into {SCHEMA}.parked (consumer, source, id, cause, aggregate, version, ordered, incarnation, seq,
            subject, type, event_schema, hash, data)
        select 1, 's', n || '.' || v, 'gap', 'order/' || n, v, true, 1, n, 's', 't', 1, '\\x00',
            case when v % 3 = 0 then '\\x00'::bytea end
        from generate_series(1, {AGGREGATES}) n, generate_series(2, {EACH + 1}) v""",
    f"""insert into {SCHEMA}.quarantine (consumer, incarnation, seq, reason, detail, subject, size, hash, data, due)
        select 1, 1, n, 'type', 'd', 's', 1, '\\x00', '\\x00', case when n % 1000 = 0 then clock_timestamp() end
        from generate_series(1, 100000) n""",
)


async def test_what_the_sweep_asks_costs_no_more_on_large_tables_than_what_it_gets(
    live: ConsumerHarness,
) -> None:
    live.tampered = True  # no events stand behind these rows
    sql = Statements("projectionist.runner", SCHEMA)
    async with live.pool.acquire() as connection:
        await connection.execute("set plan_cache_mode = force_generic_plan")
        for name, arguments in CASES.items():
            await connection.execute(f"prepare ready_{name} as {sql[name]}")
            await connection.execute(f"execute ready_{name}({arguments})")
        for statement in FILL:
            await connection.execute(statement)

        touched = {}
        for name, arguments in CASES.items():
            text = await connection.fetchval(
                f"explain (analyze, format json) execute ready_{name}({arguments})"
            )
            touched[name] = max(rows for rows in met(msgspec.json.decode(text)[0]["Plan"]))

    assert touched["select_parked_successors"] > 0
    assert {name: rows for name, rows in touched.items() if rows > MOST_ROWS} == {}


def met(node: dict[str, Any]) -> Iterator[float]:
    """How many rows each node of a plan has met, those it threw away included."""
    removed = sum(rows for key, rows in node.items() if re.match("Rows Removed by", key))
    yield (node["Actual Rows"] + removed) * node["Actual Loops"]
    for child in node.get("Plans", ()):
        yield from met(child)
