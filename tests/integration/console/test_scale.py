"""What pages read does not grow with what there is: blocks that are touched, where there is five times as much."""

from __future__ import annotations

import json

import asyncpg
import pytest
from tests.support.console_scale import SMALL, Size, a_group, an_event, fill
from tests.support.servers import SCHEMA, Servers

from projectionist.core.postgres.statements import Statements

pytestmark = pytest.mark.asyncio

LARGE = Size(inbox=SMALL.inbox * 5, parked=SMALL.parked * 5, consumers=SMALL.consumers, hours=SMALL.hours)
FEW = 20
"""So many events of each group are looked at: fewer than those of the smaller one have."""
NAME, TYPE = "Consumer001", "order.1"
SLACK = 1.3
"""An index may have a level more, and a page in it may be split."""


async def touched(
    connection: asyncpg.Connection[asyncpg.Record], statement: str, *given: object, part: str = "runner"
) -> int:
    """How many blocks a statement touches, whether they are in memory or not."""
    sql = Statements(f"projectionist.{part}", SCHEMA)[statement]
    await connection.fetch(sql, *given)
    row = await connection.fetchval(f"explain (analyze, buffers, format json) {sql}", *given)
    plan = json.loads(row)[0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


async def each(url: str) -> dict[str, int]:
    """The blocks that the statements of pages touch in a database."""
    connection = await asyncpg.connect(url)
    try:
        # Tables this small are read whole where there is a choice: what is asked is whether there is another way.
        await connection.execute("set enable_seqscan = off; set enable_bitmapscan = off")
        alike, event = await a_group(connection, "failed", TYPE), await an_event(connection)
        return {
            "status": await touched(connection, "select_status", False),
            "minutes": await touched(connection, "select_minutes", None),
            "shared": await touched(connection, "select_shared_trouble"),
            "look": await touched(connection, "select_project_state", False, 1000, 20.0, part="ops"),
            "consumer": await touched(connection, "select_consumer_state", NAME, 3, part="ops"),
            "groups": await touched(connection, "select_parked_groups_by_count", None, None, None, None, 0),
            "page of a group": await touched(
                connection, "select_parked_page", NAME, "failed", TYPE, alike, 50, 0
            ),
            "group": await touched(connection, "select_parked_of_group", NAME, "failed", TYPE, alike, 50),
            "before a retry": await touched(
                connection, "count_parked_of_group", NAME, "failed", TYPE, alike, True, FEW
            ),
            "types": await touched(connection, "select_counts_by_type", NAME),
            "sources": await touched(connection, "select_event_sources", event),
            "positions": await touched(connection, "select_aggregate_positions", "order/7", None),
        }
    finally:
        await connection.close()


async def test_what_pages_read_does_not_grow_with_what_there_is(servers: Servers) -> None:
    found = []
    for size in (SMALL, LARGE):
        url = servers.make_database()
        try:
            await fill(url, size)
            found.append(await each(url))
        finally:
            servers.drop_database(url)
    small, large = found
    grown = {name: (small[name], large[name]) for name in small if large[name] > SLACK * small[name] + 20}
    # Of quarantine it is counted, which has a hundredth of what is parked.
    assert grown.keys() <= {"shared", "status", "look"}, grown
    assert max(large.values()) < 10_000, large
