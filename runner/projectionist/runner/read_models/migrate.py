"""Creates and evolves the tables behind read models: planned first, then applied under the exclusive barrier."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import anyio
import asyncpg
import msgspec

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.core.identifiers import quoted
from projectionist.core.postgres.connections import advisory_key
from projectionist.core.postgres.search_path import default_names
from projectionist.core.postgres.statements import Statements
from projectionist.core.retry_policy import RetryPolicy, interval
from projectionist.core.testpoints import announce
from projectionist.projections.tables import ddl
from projectionist.projections.tables.ddl import ColumnSpec, NeedsRebuild
from projectionist.runner.database.barrier import barrier_key, patience
from projectionist.runner.database.queries import Queries
from projectionist.runner.read_models.indexes import build, missing
from projectionist.runner.read_models.rehearsal import rehearse
from projectionist.runner.read_models.view_dependents import check_own, options, restore

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection, Row
    from projectionist.projections.compiled.definition import Definition


READERS_MS = 100
"""How long a change of a table waits for its readers, who wait for it as long; so do batches."""
PATIENCE_S = 20.0
"""For how long it is tried again."""
TRIES = RetryPolicy(initial_s=0.1, maximum_s=1.0)


class ReadModelError(ProjectionistError):
    """A read model cannot be made or changed as its class says."""


class KeptTable(msgspec.Struct, frozen=True):
    """The part of a generation's row about one of its tables."""

    columns: tuple[ColumnSpec, ...] = ()
    body: str = ""
    """Of a SqlProjection's table: what its `create table` said."""
    indexes: dict[str, str] = {}
    """The comment of each index, by the name the class gives it."""


class Change(msgspec.Struct, frozen=True):
    """The work of `migrate` for one consumer."""

    consumer: str
    what: str
    statements: tuple[str, ...] = ()
    rebuild: tuple[str, ...] = ()
    """Why existing rows cannot follow; then nothing is done, and a rebuild is needed."""
    notes: tuple[str, ...] = ()
    renamed_from: str | None = None
    indexes: tuple[str, ...] = ()
    """Statements that make indexes beside everybody's work: after the change, each for itself."""


class ReadModels:
    """The read models of an app in one database."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._queries = Queries(connection, schema)
        self._sql = Statements("projectionist.runner", schema)

    async def plan(self, definitions: Iterable[Definition]) -> list[Change]:
        """Return what `apply` would do, consumer by consumer; nothing for those that are as their class says."""
        known = {row["name"]: row for row in await self._connection.fetch(self._sql["select_consumers"])}
        owners = {
            row["name"]: row["consumer"]
            for row in await self._connection.fetch(self._sql["select_name_owners"])
        }
        changes = [await self._planned(definition, known, owners) for definition in definitions]
        return [change for change in changes if change is not None]

    async def apply(self, definitions: Sequence[Definition], changes: Sequence[Change]) -> None:
        """Do it, one transaction a consumer; what needs a rebuild, or has been done by another, is left as it is."""
        by_name = {definition.name: definition for definition in definitions}
        for change in changes:
            if not change.rebuild:
                await self._apply_alone(by_name[change.consumer], change)

    async def _planned(
        self, d: Definition, known: dict[str, Record], owners: dict[str, str]
    ) -> Change | None:
        row = known.get(d.name)
        former = next((name for name in d.formerly if name in known), None) if row is None else None
        if former is not None:
            row = known[former]
        self._check_owner(d, owners, {d.name, former})
        if row is None:
            _check_key_name(d, known)
            await self._check_retired(d)
            return Change(consumer=d.name, what="create", statements=tuple(created(d, self._schema, 1)))
        if row["revision"] != d.revision:
            return _revised(d, row)
        indexes = await missing(self._queries, d, row["generation"])
        if row["shape"] == d.shape and former is None:
            return (
                Change(consumer=d.name, what="index", indexes=indexes)
                if indexes and row["build"] is None
                else None
            )
        return await self._evolved(d, row, former, indexes)

    async def _evolved(
        self, d: Definition, row: Record, former: str | None, indexes: tuple[str, ...]
    ) -> Change:
        """Return the change of live tables to the shape of the class, or why it takes a rebuild."""
        if row["build"] is not None:
            raise ReadModelError(
                f"a build of {d.name!r} is open, which would lack this change",
                remedy="Let `projectionist rebuild` finish it, or --abort it",
            )
        kept = await self._kept(row)
        changed = evolved(d, self._schema, row["generation"], kept)
        if isinstance(changed, NeedsRebuild):
            return Change(consumer=d.name, what="needs a rebuild", rebuild=changed.reasons)
        notes = tuple([note async for note in self._stepped_over(d, row["number"])])
        return Change(
            consumer=d.name,
            what="rename" if former else "change",
            statements=tuple(changed),
            notes=notes,
            renamed_from=former,
            indexes=indexes,
        )

    async def _check_retired(self, d: Definition) -> None:
        """Refuse the name of a consumer that was retired: its intent keys would be made once more."""
        for row in await self._connection.fetch(self._sql["select_retired_names"], [d.name]):
            raise ReadModelError(
                f"a consumer named {d.name!r} was retired by {row['who']} at {row['at'].isoformat(timespec='seconds')}",
                remedy='Its name stays reserved, since providers remember its keys: give this one another, name="…"',
            )

    def _check_owner(self, d: Definition, owners: dict[str, str], names: set[str | None]) -> None:
        for public in publics(d):
            owner = owners.get(public)
            if owner is not None and owner not in names:
                raise _owned(d, public, owner)

    async def _stepped_over(self, d: Definition, number: int) -> Any:
        for row in await self._connection.fetch(self._sql["count_ignored_by_type"], number, sorted(d.known)):
            yield f"{row['n']} events of {row['type']} were stepped over before it was handled: rebuild to include them"

    async def _kept(self, row: Record) -> dict[str, KeptTable]:
        given = (row["number"], row["generation"])
        found = await self._connection.fetchrow(self._sql["select_generation"], *given)
        assert found is not None, "generations stay on record"
        return msgspec.json.decode(found["tables"], type=dict[str, KeptTable])

    async def _apply_alone(self, d: Definition, change: Change) -> None:
        if change.what != "index":
            await self._apply_under_lock(d, change)
        if change.indexes:
            await self._make_indexes(d)

    async def _make_indexes(self, d: Definition) -> None:
        """Make missing indexes, one process at a time: an index that is being made looks like one that was left."""
        lock, tries = advisory_key(self._schema, f"indexes of {d.name}"), 0
        while not await self._connection.fetchval(self._sql["try_lock_index_creation"], lock):
            tries += 1
            announce("migrate.waiting")
            await anyio.sleep(interval(TRIES, tries))
        try:
            for change in await self.plan([d]):
                row = await self._queries.row("select_consumer", d.name)
                assert row is not None, "its change was applied"
                await build(self._queries, d, row["generation"], change.indexes)
        finally:
            await self._connection.fetchval(self._sql["unlock_index_creation"], lock)

    async def _apply_under_lock(self, d: Definition, change: Change) -> None:
        try:
            await self._tried(d, change)
        except asyncpg.LockNotAvailableError as error:
            raise ReadModelError(
                f"the tables of {d.name!r} are in use, by batches or by a session that reads them for long",
                remedy="Nothing was changed; wait for that transaction, or end it, and run this again",
            ) from error
        except (
            asyncpg.SyntaxOrAccessError,
            asyncpg.InvalidSchemaNameError,
            asyncpg.FeatureNotSupportedError,
        ) as error:
            raise ReadModelError(
                f"PostgreSQL refuses {', '.join(publics(d))} of {d.name!r}: {error}",
                remedy="Nothing was changed; mend what is in the way, or write another table= or Index(…)",
            ) from error

    async def _tried(self, d: Definition, change: Change) -> None:
        """Do it as soon as the table has no reader for a moment."""
        until, tries = clock.now() + PATIENCE_S, 0
        while True:
            try:
                async with self._connection.transaction():
                    return await self._apply_once(d, change, patience(tries))
            except asyncpg.LockNotAvailableError:
                tries += 1
                if clock.now() > until:
                    raise
                announce("migrate.refused")
            await anyio.sleep(interval(TRIES, tries))

    async def _apply_once(self, d: Definition, change: Change, wait_s: float) -> None:
        lock = advisory_key(self._schema, "read models")
        await self._connection.execute(self._sql["lock_consumer_exclusive"], lock)
        former = await self._connection.fetchrow(
            self._sql["select_consumer"], change.renamed_from or change.consumer
        )
        if former is not None:
            await self._connection.execute(f"set local lock_timeout = '{wait_s * 1000:.0f}ms'")
            await self._connection.execute(
                self._sql["lock_consumer_exclusive"], barrier_key(self._schema, former["number"])
            )
        now = await self.plan([d])  # another process may have been here since, or a swap
        if now and msgspec.structs.replace(now[0], notes=change.notes) != change:
            raise ReadModelError(
                f"the tables of {d.name!r} have changed since this was planned", remedy="Run it again"
            )
        if now:
            await self._apply(d, change)

    async def _apply(self, d: Definition, change: Change) -> None:
        tables = msgspec.json.encode(keeping(d)).decode()
        subjects = " ".join(d.subjects.texts)
        if change.what == "create":
            number = await self._connection.fetchval(
                self._sql["insert_consumer"],
                d.name,
                d.kind,
                d.revision,
                d.shape,
                d.code,
                d.stream,
                d.sequence,
                str(d.baseline),
                subjects,
                durable_name(d.name),
            )
        else:
            row = await self._connection.fetchrow(self._sql["select_consumer"], change.renamed_from or d.name)
            assert row is not None, "a planned change is about a registered consumer"
            number = row["number"]
            await self._connection.execute(self._sql["set_consumer_shape"], number, d.name, d.shape)
        await own(self._connection, self._schema, number, d)
        await self._connection.execute(self._sql["upsert_live_generation"], number, tables, d.shape, d.code)
        # No batch goes on while this waits for a reader of the table.
        await self._connection.execute(f"set local lock_timeout = '{READERS_MS}ms'")
        around = [] if change.what == "create" else await self._around(d, number)
        # The bodies of a SqlProjection's tables are the user's.
        async with default_names(self._connection) if d.tables else nullcontext():
            for statement in change.statements:
                await self._connection.execute(statement)
        if change.what == "create":
            await rehearse(self._connection, d, self._schema)
        await restore(Queries(self._connection, self._schema), around)

    async def _around(self, d: Definition, number: int) -> list[Row]:
        """Return what the views lose when they are replaced; raises DependentViews where one is not as it was made."""
        queries, around = Queries(self._connection, self._schema), []
        control = await queries.control(number)
        for table in d.owned:
            # In the order in which readers lock them: the view, and what it shows.
            if (lock := await queries.value("lock_view", ddl.public(table))) is not None:
                await self._connection.execute(lock)
            await check_own(
                queries, ddl.public(table), ddl.physical(table, self._schema, control["generation"])
            )
            around += await options(queries, ddl.public(table))
        return around


async def own(connection: Connection, schema: str, consumer: int, d: Definition) -> None:
    """Enter the names of the consumer's tables as its own, until its last generation of that name is gone.

    Raises ReadModelError where one is another's, be it one whose class is gone.
    """
    sql = Statements("projectionist.runner", schema)
    for row in await connection.fetch(sql["claim_names"], consumer, sorted(publics(d))):
        if row["consumer"] != consumer:
            raise _owned(
                d, row["name"], await connection.fetchval(sql["select_consumer_name"], row["consumer"])
            )


def _owned(d: Definition, public: str, owner: str) -> ReadModelError:
    return ReadModelError(
        f"table {public} of {d.name!r} belongs to consumer {owner!r}",
        remedy=f'If the class was renamed, say formerly=("{owner}",): inbox and intent keys hang on it',
    )


def _revised(d: Definition, row: Record) -> Change:
    """Return another revision is another generation: rows of the one are no start for the other."""
    if d.revision < row["revision"]:
        raise ReadModelError(
            f"{d.name!r} runs revision {row['revision']}, this code is revision {d.revision}",
            remedy="Deploy the newer code, or go back with `projectionist generations rollback`",
        )
    reason = f"its revision is raised from {row['revision']} to {d.revision}: `rebuild` builds it, and so does `run`"
    return Change(consumer=d.name, what="needs a rebuild", rebuild=(reason,))


def _check_key_name(d: Definition, known: dict[str, Record]) -> None:
    """Refuse a name that a consumer bore before it was renamed: both would make the same intent keys."""
    for row in known.values():
        if row["key_name"] == d.name:
            raise ReadModelError(
                f"the intent keys of {row['name']!r} are made of its first name, {d.name!r}",
                remedy='Give this consumer another name, name="…"; '
                f'or, if it is the same one, say formerly=("{row["name"]}",)',
            )


def created(d: Definition, schema: str, generation: int) -> list[str]:
    """Return the statements that make a generation, and the views over it."""
    marks = [ddl.mark(table, schema, generation) for table in d.owned]
    if d.table is not None:
        return [
            ddl.create_table(d.table, schema, generation),
            *marks,
            *ddl.create_indexes(d.table, schema, generation),
            _first(ddl.create_view(d.table, schema, generation)),
        ]
    tables = [ddl.create_sql_table(d.tables, name, schema, generation) for name in d.tables]
    indexes = [text for table in d.owned for text in ddl.create_indexes(table, schema, generation)]
    views = [_first(ddl.create_sql_view(name, schema, generation)) for name in d.tables]
    return [*tables, *marks, *indexes, *views]


def _first(view: str) -> str:
    """Return the statement that makes a view where there must be none: one of the user's own is not ours to replace."""
    return view.replace("create or replace view", "create view", 1)


def evolved(
    d: Definition, schema: str, generation: int, kept: dict[str, KeptTable]
) -> list[str] | NeedsRebuild:
    """Return the statements that bring a generation to what its class says now."""
    if d.table is not None:
        old = kept.get(d.table.public)
        if old is None:
            return NeedsRebuild((f"the table is now called {d.table.public}",))
        changed = ddl.evolve(d.table, schema, generation, old.columns)
        if isinstance(changed, NeedsRebuild):
            return changed
        view = ddl.create_view(d.table, schema, generation, [spec.name for spec in old.columns])
        return [*changed, *_undeclared(d, schema, generation, kept), view]
    if {name: k.body for name, k in kept.items()} != {name: k.body for name, k in keeping(d).items()}:
        return NeedsRebuild(("the declared tables have changed",))
    return _undeclared(d, schema, generation, kept)


def _undeclared(d: Definition, schema: str, generation: int, kept: dict[str, KeptTable]) -> list[str]:
    """Return the statements that drop the indexes which the class declares no more, or otherwise."""
    now = keeping(d)
    return [
        f"drop index if exists {quoted(schema)}.{quoted(f'{table.physical(generation)}_{name}')}"
        for table in d.owned
        for name, mark in kept[table.public].indexes.items()
        if now[table.public].indexes.get(name) != mark
    ]


def keeping(d: Definition) -> dict[str, KeptTable]:
    """Return what the row of a generation remembers of its tables, by their public names."""
    marks = {table.public: {i.name: ddl.index_mark(i) for i in table.indexes} for table in d.owned}
    if d.table is not None:
        public = d.table.public
        return {public: KeptTable(ddl.specs(d.table), indexes=marks[public])}
    bodies = zip(marks.items(), d.tables.values(), strict=True)
    return {public: KeptTable(body=body, indexes=named) for (public, named), body in bodies}


def publics(d: Definition) -> list[str]:
    """Return the names under which users see the tables."""
    return [table.public for table in d.owned]


def durable_name(consumer: str) -> str:
    """Return a name for the durable that no other deployment reading the same stream has by chance."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', consumer)}-{token_hex(4)}"
