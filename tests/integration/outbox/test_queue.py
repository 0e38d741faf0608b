"""The claim is a scan over heads: neither what was sent nor what waits behind a head makes it slower."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import msgspec
import pytest
import pytest_asyncio
from tests.support.outbox import outbox

from projectionist.core.db import Connection
from projectionist.core.sql import Statements

pytestmark = pytest.mark.asyncio

SQL = Statements("projectionist.outbox", "projectionist")
SENT, HOT, LANES = 1_000_000, 20_000, 500

FILL = """
insert into projectionist.intents (key, consumer, source, id, aggregate, version, slot, class, provider, destination,
    ordering, on_dead, body, hash, state, open)
select md5($1 || n), 1, 'shop', $1 || n, 'order/' || n % $3, n, 'R', 'R', 'events', 'events', $1 || n % $3, 'pass',
    '{}', '', $4, $4 <> 'sent'
from generate_series(1, $2::int) n
"""


@pytest_asyncio.fixture
async def prepared(database: str) -> AsyncIterator[tuple[Connection, dict[str, Any]]]:
    """A relay's connection whose statements were planned while every table was empty."""
    connection = await asyncpg.connect(database, server_settings={"jit": "off"})
    await connection.execute(SQL["steady"])
    hot = {name: await connection.prepare(SQL[name]) for name in ("lease", "start", "settle", "put_back")}
    await hot["lease"].fetch("events", "", 1, 1, uuid4(), 1.0, [])
    await hot["start"].fetch(uuid4(), [1], [None], [None], [None], 1.0)
    await hot["settle"].fetch(*settling(uuid4(), [1]))
    yield connection, hot
    await connection.close()


def settling(token: object, seqs: list[int]) -> list[Any]:
    n = len(seqs)
    texts = [
        ["sent"] * n,
        [False] * n,
        [None] * n,
        [1] * n,
        [False] * n,
        [None] * n,
        [True] * n,
        ["sent"] * n,
    ]
    return ["r", 60.0, seqs, [1] * n, *texts, *([["x"] * n] * 4), [False] * n, [0.1] * n, [token] * n]


async def buffers(connection: Connection, statement: str, *arguments: str) -> tuple[int, str]:
    """Pages that a statement touches, and its plan."""
    await connection.execute(f"prepare guarded as {SQL[statement]}")
    text = await connection.fetchval(
        f"explain (analyze, buffers, format json) execute guarded({', '.join(arguments)})"
    )
    await connection.execute("deallocate guarded")
    (plan,) = msgspec.json.decode(text)
    return plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"], text


async def test_a_million_sent_rows_and_a_hot_lane_do_not_slow_the_claim(
    prepared: tuple[Connection, dict[str, Any]],
) -> None:
    connection, _hot = prepared
    await connection.execute(FILL, "few", LANES, LANES, "ready")
    before, _ = await buffers(
        connection, "lease", "'events'", "''", "100", "5000", f"'{uuid4()}'", "1", "'{}'"
    )
    await connection.execute(
        "update projectionist.intents set state = 'ready', token = null, lease_until = null"
    )
    await connection.execute(FILL, "sent", SENT, SENT, "sent")
    await connection.execute(FILL, "hot", HOT, 1, "ready")
    after, plan = await buffers(
        connection, "lease", "'events'", "''", "100", "5000", f"'{uuid4()}'", "1", "'{}'"
    )
    assert after < 2 * before + 200, plan
    assert "Seq Scan" not in plan


async def test_every_hot_statement_stays_on_its_indexes_whatever_the_table_grew_to(
    prepared: tuple[Connection, dict[str, Any]],
) -> None:
    connection, hot = prepared
    await connection.execute(FILL, "sent", SENT // 5, SENT, "sent")
    await connection.execute(FILL, "few", LANES, LANES, "ready")
    token = uuid4()
    began = await touched(connection)
    rows = await hot["lease"].fetch("events", "", 100, 5000, token, 60.0, [])
    seqs = [row["seq"] for row in rows]
    begun = await hot["start"].fetch(token, seqs, [None] * 100, [b"h"] * 100, [None] * 100, 60.0)
    settled = await hot["settle"].fetch(*settling(token, seqs))
    assert len(rows) == len(begun) == len(settled) == 100
    assert await touched(connection) - began < 20_000, "some statement has read the whole table"


async def test_leasing_and_starting_stay_within_the_page(database: str) -> None:
    """What a lease and a start change is in no index: else each would write five of them."""
    async with outbox(database) as rig:
        indexed = await rig.connection.fetchval(
            """select array_agg(distinct a.attname::text) from pg_index x
            join pg_attribute a on a.attrelid = x.indrelid
            join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = x.indexrelid
                and d.refobjid = x.indrelid and d.refobjsubid = a.attnum
            where x.indrelid = 'projectionist.intents'::regclass"""
        )
    changed = {"state", "token", "lease_until", "attempt", "spent", "first_started", "started", "due", "mark"}
    changed |= {"wire", "wire_hash"}
    assert not set(indexed) & changed, indexed


async def touched(connection: Connection) -> int:
    await connection.fetchval("select pg_stat_force_next_flush()")
    pages: int = await connection.fetchval(
        """select heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read from pg_statio_user_tables
        where schemaname = 'projectionist' and relname = 'intents'"""
    )
    return pages
