"""The applier against a real PostgreSQL. Schema `fresh` stands for an empty database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from projectionist.core.postgres.connections import Connection, advisory_key
from projectionist.core.postgres.statements import Statements
from projectionist.migrations import MigrationError, apply_migrations, migrate, plan
from projectionist.migrations.catalog import Migration, released
from projectionist.outbox.intents.staging import unpack_all

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def tables(connection: Connection, schema: str) -> set[str]:
    rows = await connection.fetch("select tablename from pg_tables where schemaname = $1", schema)
    return {row["tablename"] for row in rows}


@pytest.mark.parametrize("schema", ["fresh", 'We "ird; --', "größe"])
async def test_an_empty_database_gets_every_table_once(connection: Connection, schema: str) -> None:
    everything = released(schema)
    assert await plan(connection, schema) == everything
    assert await migrate(connection, schema) == everything
    assert {"migrations", "consumers", "streams", "leases", "audit"} <= await tables(connection, schema)
    assert await plan(connection, schema) == []
    assert await migrate(connection, schema) == []


async def test_a_plan_writes_nothing(connection: Connection) -> None:
    await plan(connection, "fresh")
    assert not await connection.fetchval("select to_regnamespace('fresh') is not null")


async def test_two_schemas_of_one_database_do_not_know_each_other(connection: Connection) -> None:
    assert await migrate(connection, "one")
    assert await plan(connection, "two") == released("two")


async def test_an_edited_migration_is_refused(connection: Connection) -> None:
    await migrate(connection, "fresh")
    await connection.execute("update fresh.migrations set checksum = 'x' where number = 1")
    for act in (plan, migrate):
        with pytest.raises(MigrationError, match="0001_consumers was edited"):
            await act(connection, "fresh")


async def test_a_database_newer_than_the_code_is_refused(connection: Connection) -> None:
    await migrate(connection, "fresh")
    await connection.execute("insert into fresh.migrations values (9999, '9999_later', 'x', '99.0')")
    with pytest.raises(MigrationError, match=r"newer than this code.*release 99\.0"):
        await migrate(connection, "fresh")


async def test_a_failed_migration_leaves_those_before_it_and_nothing_of_itself(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = Migration(1, "0001_good", b"1", released("fresh")[0].sql)
    bad = Migration(2, "0002_bad", b"2", "create table fresh.half (x int); select 1/0")
    monkeypatch.setattr(apply_migrations, "released", lambda _: [good, bad])
    with pytest.raises(
        MigrationError, match=r"0002_bad failed.*division by zero.*22012.*Nothing of it was kept"
    ):
        await migrate(connection, "fresh")
    assert await plan(connection, "fresh") == [bad]
    assert "half" not in await tables(connection, "fresh")


async def migrate_below(number: int, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a release did that had no migration of this number yet."""
    older = [one for one in released("fresh") if one.number < number]
    with monkeypatch.context() as before:
        before.setattr(apply_migrations, "released", lambda _: older)
        await migrate(connection, "fresh")


REGISTERED = """
insert into fresh.consumers (
    name, key_name, kind, revision, shape, code, generation, stream, own_type, own_since, effects_incarnation,
    effects_mark
) values
    ('gone', 'gone', 'reactor', 1, '', '', 1, 'SHOP', null, null, null, null),
    ('Sales', 'Orders', 'projection', 3, 's3', 'c3', 2, 'SHOP', 'order', 'event 7', 1, 40);
delete from fresh.consumers where name = 'gone';
insert into fresh.generations (consumer, generation, state, tables, shape, code, revision) values
    (2, 1, 'kept', '{}', 's2', 'c2', 2), (2, 2, 'live', '{}', 's3', 'c3', 3);
insert into fresh.code_fingerprints (consumer, code) values (2, 'c2'), (2, 'c3');
insert into fresh.names (consumer, kind, name, owner) values (2, 'slot', 'Receipt', 'x');
insert into fresh.builds (consumer, kind, generation, phase, epoch, owner, revision, shape, code, base, incarnation)
    values (2, 'rebuild', 3, 'bulk', 1, 'x', 4, 's4', 'c4', 'c3', 1);
"""


async def test_what_was_a_consumers_is_its_views_after_the_upgrade(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate_below(15, connection, monkeypatch)
    await connection.execute(REGISTERED)
    await migrate(connection, "fresh")

    async def rows(select: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in await connection.fetch(select)]

    assert await rows(
        "select c.number, c.name, v.number, v.name, v.key_name, v.kind, v.revision, v.shape, v.code, v.generation,"
        " v.own_type, v.own_since, v.effects_incarnation, v.effects_mark"
        " from fresh.consumers c join fresh.views v on v.consumer = c.number"
    ) == [*((2, "Sales", 2, "Sales", "Orders", "projection", 3, b"s3", b"c3", 2, "order", "event 7", 1, 40),)]
    assert await rows("select view, generation, code from fresh.generations order by generation") == [
        *((2, 1, b"c2"), (2, 2, b"c3"))
    ]
    assert await rows("select view, code from fresh.code_fingerprints order by code") == [
        *((2, b"c2"), (2, b"c3"))
    ]
    assert await rows("select view, name from fresh.names") == [(2, "Receipt")]
    assert await rows(
        "select build, view, generation, revision, shape, code, base from fresh.build_views"
    ) == [(1, 2, 3, 4, b"s4", b"c4", b"c3")]
    assert await rows(
        "insert into fresh.views (consumer, name, key_name, kind, shape, code)"
        " values (9, 'x', 'x', 'sql', '', '') returning number"
    ) == [(3,)]


STAGED = """
insert into fresh.intents (key, consumer, source, id, slot, class, provider, destination, on_dead, body, hash, view)
    values ('old', 1, 's', 'e1', 'Receipt', 'Receipt', 'stub', 'stub', 'pass', '{}', '', 1);
insert into fresh.staged_intents (consumer, incarnation, intents, encoded) values (1, 1, 1, convert_to(
    '{"key": ["later"], "source": ["s"], "id": ["e2"], "slot": ["Receipt"], "class_name": ["Receipt"],'
    ' "provider": ["stub"], "destination": ["stub"], "on_dead": ["pass"], "body": ["{}"], "seq": [2]}', 'UTF8'));
"""


async def test_intents_from_before_scopes_were_on_record_have_none_after_the_upgrade(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate_below(21, connection, monkeypatch)
    await connection.execute(STAGED)
    await migrate(connection, "fresh")
    await unpack_all(connection, Statements("projectionist.outbox", "fresh"))

    rows = await connection.fetch("select key, scope from fresh.intents order by key")
    assert [tuple(row) for row in rows] == [("later", None), ("old", None)]


async def test_items_that_were_left_alone_are_told_by_their_sample_after_the_upgrade(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate_below(22, connection, monkeypatch)
    await connection.execute(
        """insert into fresh.operations (kind, chosen, who, reason, rate, patience_s, matched)
        values ('retry-parked', '{}', 'ann', 'mended', 10, 60, 3);
        insert into fresh.operation_items
            (operation, place, alike, sample, judged, consumer, source, id, version, attempts, state)
        select 1, n, 1, case n when 1 then 1 else 2 end, true, 1, 'shop', n, 1, 1,
            case n when 1 then 'failed' else 'left' end
        from generate_series(1, 3) n"""
    )
    await migrate(connection, "fresh")

    samples = await connection.fetch(
        "select sample, items, failed, left_alone, open from fresh.operation_samples order by sample"
    )
    assert [tuple(row) for row in samples] == [(1, 1, 1, 0, False), (2, 2, 0, 2, False)]
    states = await connection.fetch("select state from fresh.operation_items order by place")
    assert [state for (state,) in states] == ["failed", "waiting", "waiting"]


async def test_tables_of_somebody_else_are_not_touched(connection: Connection) -> None:
    await connection.execute("create schema fresh; create table fresh.consumers (x int)")
    with pytest.raises(MigrationError, match=r"postgres\.schema"):
        await migrate(connection, "fresh")
    assert await tables(connection, "fresh") == {"consumers"}


async def test_a_schema_made_beforehand_needs_no_right_to_create_one(connection: Connection) -> None:
    await connection.execute("create role small; create schema fresh authorization small; set role small")
    try:
        assert await migrate(connection, "fresh")
        with pytest.raises(MigrationError, match=r"permission denied.*may create schema 'other'"):
            await migrate(connection, "other")
    finally:
        await connection.execute("reset role; drop owned by small; drop role small")


async def test_of_two_appliers_at_once_one_waits_and_finds_nothing_to_do(database: str) -> None:
    first, second = await asyncpg.connect(database), await asyncpg.connect(database)
    try:
        outcomes = await asyncio.gather(migrate(first, "fresh"), migrate(second, "fresh"))
    finally:
        await first.close()
        await second.close()
    applied = [migration for outcome in outcomes for migration in outcome]
    assert sorted(m.number for m in applied) == [m.number for m in released("fresh")]


async def test_an_applier_that_waited_too_long_says_what_it_waits_for(
    connection: Connection, database: str
) -> None:
    holder = await asyncpg.connect(database)
    try:
        await holder.execute(f"select pg_advisory_lock({advisory_key('fresh', 'migrate')})")
        with pytest.raises(MigrationError, match="another process has been migrating schema 'fresh'"):
            await migrate(connection, "fresh", patience_s=0.05)
    finally:
        await holder.close()
