"""Indexes that a class declares: of every kind, made beside batches, and what a unique one does to events."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import ACT, RebuildHarness
from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderPlaced

from projectionist.projections import Index, Projection, SqlProjection, Tx, definition, on
from projectionist.runner.read_models.change_plan import Change, ReadModelError
from projectionist.runner.read_models.indexes import IndexRefused
from projectionist.runner.read_models.migrate import ReadModels

pytestmark = pytest.mark.asyncio

EMAIL = Index("(lower(email))", name="email", unique=True, where="email <> ''")
OF_ROWS = (EMAIL, Index("(tags) jsonb_path_ops", name="tags", using="gin"), Index("email", "visits"))
OF_SQL = {"visits": (Index("email", unique=True),)}


def accounts(stream: Stream, rows: Any = OF_ROWS, sql: Any = OF_SQL) -> SimpleNamespace:
    """One row an account by fields, and one row an address by SQL, with these indexes."""
    policy: dict[str, Any] = {"stream": stream.name, "subjects": stream.subject("order", "{aggregate}")}

    class Accounts(Projection, table="accounts", key="account_id", indexes=rows, **policy):
        account_id: str
        email: str = ""
        visits: int = 0
        tags: list[str] = []

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.email, self.visits = event.customer, event.cents
            self.tags.append(event.customer)

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.email = event.text

    class Visits(SqlProjection, indexes=sql, **policy):
        tables = {"visits": "account text primary key, email text not null, n bigint not null"}

        @on(OrderPlaced)
        async def placed(self, tx: Tx, event: OrderPlaced) -> None:
            insert = (
                "insert into {visits} as v values ($1, $1, 1) on conflict (email) do update set n = v.n + 1"
            )
            await tx.execute(insert, event.customer)

    return SimpleNamespace(Accounts=Accounts, Visits=Visits)


async def planned(harness: ConsumerHarness, *classes: type) -> list[Change]:
    async with harness.connected() as connection:
        return await ReadModels(connection, "projectionist").plan([definition(cls) for cls in classes])


async def made(harness: ConsumerHarness, generation: int) -> list[str]:
    """What PostgreSQL says of the indexes of one generation that hold."""
    found = await harness.fetch(
        "select pg_get_indexdef(indexrelid) from pg_index join pg_class c on c.oid = indrelid"
        f" where c.relname ~ '__g{generation}$' and indisvalid and not indisprimary order by 1"
    )
    return [text.replace("projectionist.", "").replace(f"__g{generation}", "") for (text,) in found]


WANTED = [
    "CREATE INDEX accounts_email_visits ON accounts USING btree (email, visits)",
    "CREATE INDEX accounts_tags ON accounts USING gin (tags jsonb_path_ops)",
    "CREATE UNIQUE INDEX accounts_email ON accounts USING btree (lower(email)) WHERE (email <> ''::text)",
    "CREATE UNIQUE INDEX visits_email ON visits USING btree (email)",
]


async def test_indexes_of_every_kind_are_made_and_a_rebuild_makes_them_too(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    bare, s = accounts(harness.stream, (), {}), accounts(harness.stream)
    await harness.migrate(bare.Accounts, bare.Visits)
    changes = await planned(harness, s.Accounts, s.Visits)
    shown = [text for change in changes for text in change.indexes]
    assert sum(text.startswith("create unique index concurrently") for text in shown) == 2
    await harness.migrate(s.Accounts, s.Visits)
    assert await made(harness, 1) == WANTED
    assert await planned(harness, s.Accounts, s.Visits) == []

    for n, name in enumerate(("ann", "bob", "ann")):
        await harness.publish(OrderPlaced(name, n), f"o{n}", 1)
    await harness.settle(s.Visits)
    for cls in (s.Accounts, s.Visits):
        await rebuilds.rebuild(cls)
    assert await made(harness, 2) == WANTED
    assert await planned(harness, s.Accounts, s.Visits) == []
    assert await harness.fetch("select email, n from visits order by 1") == [("ann", 2), ("bob", 1)]

    await harness.migrate(bare.Accounts, bare.Visits)
    assert await made(harness, 2) == []


async def test_an_index_uses_a_function_that_lies_where_the_roles_own_sessions_look(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    await harness.pool.execute(
        "create function public.folded(text) returns text language sql immutable as 'select pg_catalog.lower($1)'"
    )
    folded = Index("(folded(email))", name="folded")
    bare, s = accounts(harness.stream, (), {}), accounts(harness.stream, (folded,), {"visits": (folded,)})
    await harness.migrate(s.Accounts, bare.Visits)
    await harness.migrate(s.Visits)
    await harness.publish(OrderPlaced("Ann", 1), "o1", 1)
    await harness.settle(s.Accounts, s.Visits)
    wanted = [
        f"CREATE INDEX {table}_folded ON {table} USING btree (folded(email))"
        for table in ("accounts", "visits")
    ]
    assert await made(harness, 1) == wanted
    for cls in (s.Accounts, s.Visits):
        await rebuilds.rebuild(cls)
    assert await made(harness, 2) == wanted


async def test_an_index_whose_condition_changed_is_made_anew(live: ConsumerHarness) -> None:
    await live.migrate(accounts(live.stream, (Index("visits", where="visits > 1"),)).Accounts)
    changed = accounts(live.stream, (Index("visits", where="visits > 2"),)).Accounts
    await live.migrate(changed)
    assert await made(live, 1) == [
        "CREATE INDEX accounts_visits ON accounts USING btree (visits) WHERE (visits > 2)"
    ]
    assert await planned(live, changed) == []


async def test_a_unique_index_that_rows_contradict_is_refused_and_leaves_nothing(
    live: ConsumerHarness,
) -> None:
    """What is left of one would refuse rows although nobody has it."""
    bare, s = accounts(live.stream, ()), accounts(live.stream)
    await live.migrate(bare.Accounts)
    for n in range(2):
        await live.publish(OrderPlaced("ann", n), f"o{n}", 1)
    await live.settle(bare.Accounts)
    with pytest.raises(IndexRefused, match="share what a unique index allows once"):
        await live.migrate(s.Accounts)
    assert await live.value("select count(*) from pg_index where not indisvalid") == 0

    await live.publish(OrderNoted("bob"), "o0", 2)
    await live.settle(s.Accounts)
    await live.migrate(s.Accounts)
    assert await made(live, 1) == WANTED[:3]


async def test_an_index_that_postgresql_does_not_take_is_refused(live: ConsumerHarness) -> None:
    wrong = Index("(lower(visits))", name="wrong")
    with pytest.raises(ReadModelError, match=r"(?s)function lower\(bigint\) does not exist.*Index"):
        await live.migrate(accounts(live.stream, (wrong,)).Accounts)
    await live.migrate(accounts(live.stream, ()).Accounts)
    with pytest.raises(IndexRefused, match=r"(?s)function lower\(bigint\) does not exist.*Index"):
        await live.migrate(accounts(live.stream, (wrong,)).Accounts)


async def test_an_index_whose_making_was_killed_is_made_by_the_next_migrate(live: ConsumerHarness) -> None:
    bare, s = accounts(live.stream, ()), accounts(live.stream, (EMAIL,))
    await live.migrate(bare.Accounts)
    async with live.pool.acquire() as writer:
        await writer.execute("begin; insert into projectionist.accounts__g1 values ('x')")
        migrating = asyncio.create_task(live.migrate(s.Accounts))
        await live.blocked()
        await live.pool.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where query like 'create unique index%'"
        )
        with pytest.raises(Exception, match=r"terminat|closed"):
            await migrating
        await writer.execute("rollback")
    assert await live.value("select count(*) from pg_index where not indisvalid") == 1
    (change,) = await planned(live, s.Accounts)
    assert [text.split(" ")[0] for text in change.indexes] == ["drop", "create", "comment"]

    await live.migrate(s.Accounts)
    assert await made(live, 1) == [WANTED[2]]


async def test_an_index_whose_making_ends_in_another_way_leaves_nothing_either(live: ConsumerHarness) -> None:
    await live.pool.execute(
        "create function public.strict(text) returns text language plpgsql immutable as "
        "'begin raise exception ''not this one''; end'"
    )
    bare, s = accounts(live.stream, ()), accounts(live.stream, (EMAIL,))
    raising = accounts(live.stream, (Index("(strict(email))", name="strict", unique=True),))
    await live.migrate(bare.Accounts)
    await live.publish(OrderPlaced("ann", 1), "o0", 1)
    await live.settle(bare.Accounts)
    with pytest.raises(IndexRefused, match="not this one"):
        await live.migrate(raising.Accounts)
    assert await live.value("select count(*) from pg_index where not indisvalid") == 0

    async with live.pool.acquire() as writer:
        await writer.execute("begin; insert into projectionist.accounts__g1 values ('x')")
        migrating = asyncio.create_task(live.migrate(s.Accounts))
        await live.blocked()
        await live.pool.execute(
            "select pg_cancel_backend(pid) from pg_stat_activity where query like 'create unique index%'"
        )
        await live.value_of("select count(*) from pg_stat_activity where query like 'drop index%'", 1)
        await writer.execute("rollback")
        with pytest.raises(asyncpg.QueryCanceledError):
            await migrating
    assert await live.value("select count(*) from pg_index where not indisvalid") == 0


async def test_an_event_that_a_unique_index_refuses_is_parked_alone(rebuilds: RebuildHarness) -> None:
    """It waits for a decision like any that fails; a rebuild agrees with that, and so does a value that moved on."""
    harness = rebuilds.harness
    s = accounts(harness.stream)
    await harness.migrate(s.Accounts)
    for account, name in (("o0", "ann"), ("o1", "Ann"), ("o9", "bob")):
        await harness.publish(OrderPlaced(name, 1), account, 1)
    async with harness.running(s.Accounts):
        await inspection.reaches(
            "waiting", inspection.value, harness, "positions", "head", aggregate="order/o1"
        )
        await rebuilds.settled(s.Accounts)
        assert await harness.fetch("select account_id from accounts order by 1") == [("o0",), ("o9",)]
        error = await inspection.value(harness, "parked", "error")
        assert 'duplicate key value violates unique constraint "accounts__g1_email"' in error

        async with rebuilds.reading(s.Accounts) as building:
            await harness.publish(OrderNoted("eve"), "o0", 2)
            await harness.publish(OrderNoted("fay"), "o9", 2)
            await harness.publish(OrderPlaced("bob", 1), "o3", 1)  # written before o9, which has let go of it
            await rebuilds.settled(s.Accounts)
            async with harness.verbs(s.Accounts) as verbs:
                await verbs.retry("order/o1", ACT)
            await inspection.reaches(
                "clear", inspection.value, harness, "positions", "head", aggregate="order/o1"
            )
        assert (await building).views[0].compared.differences == []
    assert await harness.fetch("select account_id, email from accounts order by 1") == [
        ("o0", "eve"),
        ("o1", "Ann"),
        ("o3", "bob"),
        ("o9", "fay"),
    ]
