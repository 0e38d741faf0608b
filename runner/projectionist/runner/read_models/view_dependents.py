"""The view that users read, and what stands around it: all of it is carried over to another generation, or named."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import asyncpg

from projectionist.projections.tables.ddl import shown
from projectionist.runner.database.queries import RebuildError

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.runner.database.queries import Queries


class DependentViews(RebuildError):
    """Something of the user's on a view, or on the table behind it, would be lost. Nothing was changed."""


async def check_own(queries: Queries, public: str, table: str | None) -> None:
    """Raise DependentViews if the view is there and does anything but show this table of ours."""
    own = await queries.value("is_own_view", public, table)
    if own is False:
        raise DependentViews(
            f"{public} is not the view that was made over {table or 'a generation'}: another statement has replaced it",
            remedy="Give that view another name, over this one; or drop it, and it is made again",
        )


async def exchange(
    queries: Queries, public: str, live: str | None, fresh: str, columns: Sequence[str], *, anew: bool
) -> None:
    """Have the view show `columns` of the table `fresh`, with all that stood around it over `live`.

    `anew`: it has to be dropped and made again, because PostgreSQL cannot replace it. Raises DependentViews.
    """
    around = await recreatable(queries, public, live, fresh, anew=anew)
    word = "create view" if live is None else "create or replace view"
    try:
        if anew:
            await queries.connection.execute(f"drop view if exists {public}")
        await queries.connection.execute(f"{word} {public} as\n{shown(columns, fresh)}")
        for name in () if live is None else (fresh, public) if anew else (fresh,):
            await _run(queries, "strip_statements", name)
        await restore(queries, [row for row in around if row["col"] is None or row["col"] in columns])
        await _run(queries, "grant_to_view_owner", public, fresh)
    except asyncpg.InsufficientPrivilegeError as error:
        raise DependentViews(
            f"{public} cannot be changed by the role that runs this: {error}",
            remedy="Make that role a member of the one that owns the view, or give the view to it; then try again",
        ) from error


async def recreatable(
    queries: Queries, public: str, live: str | None, fresh: str, *, anew: bool
) -> list[Row]:
    """Return what depends on a view and can be made again; raises DependentViews for what cannot."""
    await check_own(queries, public, live)
    around = [] if live is None else await _around(queries, public, live, fresh, anew=anew)
    stuck = [row["what"] for row in around if not row["statement"]]
    if stuck:
        raise DependentViews(
            f"{', '.join(stuck)} would be lost with the change of {public}",
            remedy="Drop what is named, try again, and make it again afterwards, on the view where it can be",
        )
    return around


async def _run(queries: Queries, statements: str, *arguments: object) -> None:
    for row in await queries.rows(statements, *arguments):
        await queries.connection.execute(row["statement"])


async def carry_indexes(
    queries: Queries, live: str, fresh: str, declared: Sequence[str]
) -> AsyncIterator[str]:
    """Make the user's own indexes of the table `live` on `fresh` too; tells of each that cannot be made."""
    for row in await queries.rows("select_undeclared_indexes", live, fresh, declared):
        try:
            await queries.connection.execute(row["statement"])
        except (asyncpg.SyntaxOrAccessError, asyncpg.IntegrityConstraintViolationError) as error:
            yield f"index {row['name']} of {live} cannot be made on {fresh}: {error}"


async def options(queries: Queries, public: str) -> list[Row]:
    """Return what a view loses when it is replaced in place."""
    return [row for row in await queries.rows("select_view_attachments", public) if row["kind"] == "option"]


async def restore(queries: Queries, around: Sequence[Row]) -> None:
    """Make again what stood around a view; raises DependentViews where that cannot be."""
    for row in around:
        try:
            async with queries.connection.transaction():
                await queries.connection.execute(row["statement"])
        except (asyncpg.SyntaxOrAccessError, asyncpg.DependentObjectsStillExistError) as error:
            raise DependentViews(
                f"{row['what']} cannot be made again: {error}",
                remedy="Drop it, try again, and make it again as it fits the new columns",
            ) from error


async def _around(queries: Queries, public: str, live: str, fresh: str, *, anew: bool) -> list[Row]:
    view = await queries.rows("select_view_attachments", public) if anew else await options(queries, public)
    return [*view, *await queries.rows("select_table_attachments", live, fresh, public)]
