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

from projectionist.core.postgres.connections import Connection
from projectionist.core.postgres.statements import Statements

pytestmark = pytest.mark.asyncio

SQL = Statements("projectionist.outbox", "projectionist")
TABLES = ("projectionist.intents", "projectionist.outbox")
UNCROWDED = ("'{}'", "'{}'", "0", "true")
"""No destination rests, none has its share."""
SENT, HOT, LANES = 1_000_000, 20_000, 500
WAITING = 50_000

FILL = """
with written as (
    insert into projectionist.intents (key, consumer, source, id, aggregate, version, slot, class, provider,
        destination, ordering, on_dead, body, hash, state)
    select md5($1 || n), 1, 'shop', $1 || n, 'order/' || n % $3, n, 'R', 'R', 'events', 'events', $1 || n % $3, 'pass',
        '{}', '', $4
    from generate_series(1, $2::int) n
    returning seq, provider, ordering, state
)
insert into projectionist.outbox (seq, provider, destination, lane, place)
select seq, provider, provider, ordering, seq from written where state = 'open'
"""


@pytest_asyncio.fixture
async def prepared(database: str) -> AsyncIterator[tuple[Connection, dict[str, Any]]]:
    """A relay's connection whose statements were planned while every table was empty."""
    connection = await asyncpg.connect(database, server_settings={"jit": "off"})
    await connection.execute(SQL["set_stable_plans"], False)
    hot = {
        name: await connection.prepare(SQL[name])
        for name in ("lease_intents", "start_attempts", "record_replies", "record_first_successes")
    }
    await hot["lease_intents"].fetch("events", "", 1, 1, uuid4(), 1.0, [], [], 0, True)
    await hot["start_attempts"].fetch(uuid4(), [1], [None], [None], [None], 1.0)
    await hot["record_replies"].fetch(*settling(uuid4(), [1]))
    await hot["record_first_successes"].fetch(60.0, [1], [None], [None], [None], [None], [None])
    yield connection, hot
    await connection.close()


def settling(token: object, seqs: list[int]) -> list[Any]:
    """The arguments of `settle`."""
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
    await connection.execute(FILL, "few", LANES, LANES, "open")
    before, _ = await buffers(
        connection, "lease_intents", "'events'", "''", "100", "5000", f"'{uuid4()}'", "1", *UNCROWDED
    )
    await connection.execute(
        "update projectionist.outbox set state = 'ready', token = null, lease_until = null"
    )
    await connection.execute(FILL, "sent", SENT, SENT, "sent")
    await connection.execute(FILL, "hot", HOT, 1, "open")
    after, plan = await buffers(
        connection, "lease_intents", "'events'", "''", "100", "5000", f"'{uuid4()}'", "1", *UNCROWDED
    )
    assert after < 2 * before + 200, plan
    assert "Seq Scan" not in plan


LATER = """
with written as (
    insert into projectionist.intents (key, consumer, source, id, aggregate, version, slot, class, provider,
        destination, ordering, on_dead, body, hash, scheduled)
    select md5('later' || n), n % 10, 'shop', 'later' || n, 'order/' || n, 1, 'R', 'R', 'events', 'events',
        'order/' || n, 'pass', '{}', '', clock_timestamp() + n * interval '1 minute'
    from generate_series(1, $1::int) n
    returning seq, consumer, aggregate, scheduled
)
insert into projectionist.schedule (intent, consumer, aggregate, version, class, slot, due, guard, look)
select seq, consumer, aggregate, 1, 'R', 'R', scheduled, 'clock', scheduled from written
"""


async def test_what_waits_for_its_time_costs_claim_and_look_nothing(
    prepared: tuple[Connection, dict[str, Any]],
) -> None:
    connection, _hot = prepared
    claim = ("lease_intents", "'events'", "''", "100", "5000", f"'{uuid4()}'", "1", *UNCROWDED)
    await connection.execute(FILL, "few", LANES, LANES, "open")
    before, _ = await buffers(connection, *claim)
    await connection.execute(
        "update projectionist.outbox set state = 'ready', token = null, lease_until = null"
    )
    await connection.execute(LATER, WAITING)
    after, plan = await buffers(connection, *claim)
    assert after < 2 * before + 200, plan
    assert "schedule" not in plan

    looked, plan = await buffers(connection, "select_due_intents", "1000")
    assert looked < 100, plan
    promoted, plan = await buffers(connection, "promote_intents", "'{1,2,3}'", "0", "'{4}'", "5")
    assert promoted < 200, plan
    cancelled, plan = await buffers(connection, "apply_cancels", "1000")
    assert cancelled < 100, plan


async def test_every_hot_statement_stays_on_its_indexes_whatever_the_table_grew_to(
    prepared: tuple[Connection, dict[str, Any]],
) -> None:
    connection, hot = prepared
    await connection.execute(FILL, "sent", SENT // 5, SENT, "sent")
    await connection.execute(FILL, "few", LANES, LANES, "open")
    token = uuid4()
    began = await touched(connection)
    rows = await hot["lease_intents"].fetch("events", "", 100, 5000, token, 60.0, [], [], 0, True)
    seqs = [row["seq"] for row in rows]
    begun = await hot["start_attempts"].fetch(token, seqs, [None] * 100, [b"h"] * 100, [None] * 100, 60.0)
    half = seqs[:50], seqs[50:]
    settled = await hot["record_replies"].fetch(*settling(token, half[0]))
    settled += await hot["record_first_successes"].fetch(60.0, half[1], [None] * 50, *([[None] * 50] * 4))
    assert len(rows) == len(begun) == len(settled) == 100
    assert await touched(connection) - began < 20_000, "some statement has read the whole table"


async def test_no_step_of_the_relay_touches_an_index(database: str) -> None:
    """What lease, start and outcome change stands in no index: else each would write all of them anew."""
    async with outbox(database) as harness:
        indexed = await harness.connection.fetch(
            """select distinct x.indrelid::regclass::text as owner, a.attname::text as name from pg_index x
            join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = x.indexrelid
                and d.refobjid = x.indrelid
            join pg_attribute a on a.attrelid = x.indrelid and a.attnum = d.refobjsubid
            where x.indrelid = any ('{projectionist.intents, projectionist.outbox}'::regclass[])"""
        )
    of = {owner: {row["name"] for row in indexed if row["owner"] == owner} for owner in TABLES}
    assert of["projectionist.outbox"] <= {"seq", "provider", "lane", "place", "open"}
    assert of["projectionist.intents"] <= {"seq", "key", "consumer", "source", "id"}
    assert all(of.values())


async def touched(connection: Connection) -> int:
    await connection.fetchval("select pg_stat_force_next_flush()")
    pages: int = await connection.fetchval(
        """select sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint from pg_statio_user_tables
        where schemaname = 'projectionist' and relname in ('intents', 'outbox')"""
    )
    return pages
