"""Applies planned changes to the tables behind read models, one consumer at a time under the exclusive barrier."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from secrets import token_hex
from typing import TYPE_CHECKING

import anyio
import asyncpg
import msgspec

from projectionist.core import clock
from projectionist.core.postgres.connections import advisory_key
from projectionist.core.postgres.rights import grant_recorded
from projectionist.core.postgres.search_path import default_names
from projectionist.core.postgres.statements import Statements
from projectionist.core.retry_policy import RetryPolicy, interval
from projectionist.core.testpoints import announce
from projectionist.projections.tables import ddl
from projectionist.runner.database.barrier import barrier_key, patience
from projectionist.runner.database.queries import Queries
from projectionist.runner.read_models.change_plan import (
    Change,
    ChangePlanner,
    ReadModelError,
    owned_by_another,
)
from projectionist.runner.read_models.indexes import build
from projectionist.runner.read_models.rehearsal import rehearse
from projectionist.runner.read_models.table_statements import keeping, publics
from projectionist.runner.read_models.view_dependents import check_own, options, restore

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition


READERS_MS = 100
"""How long a change of a table waits for its readers, who wait for it as long; so do batches."""
PATIENCE_S = 20.0
"""For how long it is tried again."""
TRIES = RetryPolicy(initial_s=0.1, maximum_s=1.0)


class ReadModels:
    """The read models of an app in one database."""

    def __init__(self, connection: Connection, schema: str, *, patience_s: float = PATIENCE_S) -> None:
        self._connection = connection
        self._schema = schema
        self._queries = Queries(connection, schema)
        self._sql = Statements("projectionist.runner", schema)
        self._planner = ChangePlanner(connection, schema)
        self._patience_s = patience_s

    async def plan(self, definitions: Iterable[ConsumerDefinition]) -> list[Change]:
        """Return what `apply` would do, view by view; nothing for those that are as their class says."""
        return await self._planner.plan(definitions)

    async def apply(self, definitions: Sequence[ConsumerDefinition], changes: Sequence[Change]) -> None:
        """Do it, one transaction a view; what needs a rebuild, or has been done by another, is left as it is."""
        by_name = {view.full_name: view for definition in definitions for view in definition.views}
        for change in changes:
            if change.retires is not None:
                await self._retire(change.retires, change.view)
            elif not change.rebuild:
                await self._apply_alone(by_name[change.view], change)

    async def _retire(self, view: int, name: str) -> None:
        """Have no batch write this view any more; its tables and its public view stay."""
        number = (await self._queries.control(view))["number"]
        async with self._queries.alone(number, "retire a view"):
            build = await self._queries.open_build(number)
            if build is not None and any(one.view == view for one in build.views):
                raise ReadModelError(
                    f"a build of {name} is open, whose swap would bring it back",
                    remedy="Let `projectionist rebuild` finish it, or --abort it, and migrate again",
                )
            await self._queries.run("set_view_state", view, "retired")
            await self._queries.run("keep_last_generation", view)

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
                row = await self._queries.row("select_view", d.name)
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
        until, tries = clock.now() + self._patience_s, 0
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
        former = await self._connection.fetchrow(self._sql["select_view"], change.renamed_from or d.name)
        former = former or await self._connection.fetchrow(self._sql["select_consumer"], d.consumer)
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
        number, view, state = await self._register(d, change)
        await own(self._connection, self._schema, number, d)
        if state != "live":
            return  # a build makes its tables
        tables = msgspec.json.encode(keeping(d)).decode()
        await self._connection.execute(self._sql["upsert_live_generation"], view, tables, d.shape, d.code)
        # No batch goes on while this waits for a reader of the table.
        await self._connection.execute(f"set local lock_timeout = '{READERS_MS}ms'")
        around = [] if change.what == "create" else await self._around(d, view)
        async with default_names(self._connection) if d.has_own_ddl else nullcontext():
            for statement in change.statements:
                await self._connection.execute(statement)
        if change.what == "create":
            await grant_recorded(self._connection, self._schema)
            await rehearse(self._connection, d, self._schema)
        await restore(Queries(self._connection, self._schema), around)

    async def _register(self, d: Definition, change: Change) -> tuple[int, int, str]:
        """Put consumer and view on record as the class says; return their numbers, and the state of the view."""
        if change.what in ("create", "join"):
            if (row := await self._connection.fetchrow(self._sql["select_view"], d.name)) is not None:
                await self._connection.execute(self._sql["set_view_state"], row["view"], "joining")
                return row["number"], row["view"], "joining"
            known = await self._connection.fetchrow(self._sql["select_consumer"], d.consumer)
            number = await self._register_consumer(d) if known is None else known["number"]
            given = (number, d.name, d.kind, d.revision, d.shape, d.code, d.looked_up_views)
            row = await self._connection.fetchrow(self._sql["insert_view"], *given)
            assert row is not None, "it was inserted"
            await self._connection.execute(self._sql["increment_epoch"], number)
            return number, row["number"], row["state"]
        row = await self._connection.fetchrow(self._sql["select_view"], change.renamed_from or d.name)
        assert row is not None, "a planned change is about a registered view"
        await self._connection.execute(
            self._sql["set_view_shape"], row["view"], d.name, d.shape, d.consumer, d.looked_up_views
        )
        return row["number"], row["view"], row["state"]

    async def _register_consumer(self, d: Definition) -> int:
        number: int = await self._connection.fetchval(
            self._sql["insert_consumer"],
            d.consumer,
            d.stream,
            d.sequence,
            str(d.baseline),
            " ".join(d.subjects.texts),
            durable_name(d.consumer),
        )
        return number

    async def _around(self, d: Definition, view: int) -> list[Row]:
        """Return what the views lose when they are replaced; raises DependentViews where one is not as it was made."""
        queries, around = Queries(self._connection, self._schema), []
        control = await queries.control(view)
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
            raise owned_by_another(
                d, row["name"], await connection.fetchval(sql["select_consumer_name"], row["consumer"])
            )


def durable_name(consumer: str) -> str:
    """Return a name for the durable that no other deployment reading the same stream has by chance."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', consumer)}-{token_hex(4)}"
