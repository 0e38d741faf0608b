"""Indexes of live tables: which are missing, and how they are made while batches go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import asyncpg

from projectionist.core.identifiers import quoted
from projectionist.core.postgres.search_path import default_names_of_session
from projectionist.core.testpoints import announce
from projectionist.projections.tables import ddl
from projectionist.runner.database.queries import RebuildError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from asyncpg import Record

    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.projections.tables.table import Index, Table
    from projectionist.runner.database.queries import Queries


class IndexRefused(RebuildError):
    """PostgreSQL cannot make an index as its class declares it."""


async def missing(queries: Queries, d: Definition, generation: int) -> tuple[str, ...]:
    """Return what makes the declared indexes that are not there, not as declared, or were not finished.

    That an index was finished, and from which declaration, is what its comment says.
    """
    made: list[str] = []
    async for table, index, there in _declared(queries, d, generation):
        if there is not None and there["valid"] and there["mark"] == ddl.index_mark(index):
            continue
        if there is not None:
            made.append(_drop(queries, there))
        made += ddl.create_index(table, index, queries.schema, generation, "concurrently ")
    return tuple(made)


async def build(queries: Queries, d: Definition, generation: int, statements: Sequence[str]) -> None:
    """Run what `missing` returned. Raises IndexRefused, or what else PostgreSQL says, after what was begun has been
    dropped: a unique index that is not finished refuses rows all the same.
    """
    await queries.connection.execute("set lock_timeout = 0; set statement_timeout = 0")
    try:
        with refusals(d):
            async with default_names_of_session(queries.connection):
                for text in statements:
                    await queries.connection.execute(text)
                    announce("migrate.indexing")
    except (IndexRefused, asyncpg.PostgresError):
        if queries.connection.is_closed():
            raise
        async for _, _, there in _declared(queries, d, generation):
            if there is not None and not there["valid"]:
                await queries.connection.execute(_drop(queries, there))
        raise
    finally:
        if not queries.connection.is_closed():
            await queries.connection.execute("reset lock_timeout; reset statement_timeout")


@contextmanager
def refusals(d: ConsumerDefinition) -> Iterator[None]:
    """Raise IndexRefused in place of PostgreSQL's refusal of an index."""
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        raise IndexRefused(
            f"rows of {d.name!r} share what a unique index allows once: {error.args[0]}",
            remedy="Find them by `group by … having count(*) > 1`, and have an event change one; or declare no unique "
            "index. Then run this again, a rebuild with --restart",
        ) from error
    except (
        asyncpg.SyntaxOrAccessError,
        asyncpg.FeatureNotSupportedError,
        asyncpg.DataError,
        asyncpg.ProgramLimitExceededError,
        asyncpg.PLPGSQLError,
    ) as error:
        raise IndexRefused(
            f"PostgreSQL refuses an index of {d.name!r}: {error}",
            remedy="Mend what Index(…) says in the class, then run this again",
        ) from error


async def _declared(
    queries: Queries, d: Definition, generation: int
) -> AsyncIterator[tuple[Table, Index, Record | None]]:
    """Yield each declared index with what stands under its name."""
    for table in d.owned:
        rows = await queries.rows("select_indexes", ddl.physical(table, queries.schema, generation))
        found = {row["name"]: row for row in rows}
        for index in table.indexes:
            yield table, index, found.get(table.index_name(index, generation))


def _drop(queries: Queries, there: Record) -> str:
    return f"drop index concurrently if exists {quoted(queries.schema)}.{quoted(there['name'])}"
