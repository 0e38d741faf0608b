"""The public views under which readers see a read model: what stands behind them now, and how to point them elsewhere.

Where a number is asked for, it is that of the view whose generation it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from projectionist.core.identifiers import quoted
from projectionist.projections.tables.ddl import marked
from projectionist.projections.tables.table import Table
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.read_models.table_statements import KeptTable
from projectionist.runner.read_models.view_dependents import carry_indexes as make_indexes
from projectionist.runner.read_models.view_dependents import check_own, exchange, recreatable

if TYPE_CHECKING:
    from projectionist.runner.database.queries import Queries


class DatabaseColumn(msgspec.Struct, frozen=True):
    """A column of a table or view, as PostgreSQL knows it."""

    name: str
    sql_type: str
    collation: str
    """`"C"` in a key, "-" for types without one. A view cannot be replaced by one with another."""


class PublicView(msgspec.Struct, frozen=True):
    """A public name and the generation's table behind it."""

    schema: str
    name: str
    table: str
    mark: str
    """What that table bears, so that it is known as ours."""

    @property
    def public(self) -> str:
        """Return the quoted name readers use."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def physical(self, schema: str) -> str:
        """Return the quoted name of the table behind it, in our `schema`."""
        return f"{quoted(schema)}.{quoted(self.table)}"


def views(tables: dict[str, KeptTable], generation: int) -> list[PublicView]:
    """Return the views over a generation, from what its row remembers."""
    owned = [Table(public) for public in tables]
    return [
        PublicView(one.schema, one.name, one.physical(generation), marked(one, generation)) for one in owned
    ]


async def kept(queries: Queries, number: int, generation: int) -> dict[str, KeptTable]:
    """Return what the row of a view's generation remembers of its tables."""
    row = await queries.row("select_generation", number, generation)
    assert row is not None, "generations stay on record"
    return remembered(row["tables"])


def remembered(tables: str) -> dict[str, KeptTable]:
    """Return what a text on record says of a generation's tables. Pure."""
    return msgspec.json.decode(tables, type=dict[str, KeptTable])


async def shown(queries: Queries, number: int, generation: int | None) -> dict[str, PublicView]:
    """Return the views over a generation, if there is one, by the quoted names readers use."""
    if generation is None:
        return {}
    found = views(await kept(queries, number, generation), generation)
    return {view.public: view for view in found}


async def table_names(queries: Queries, number: int, generation: int) -> list[str]:
    """Return the quoted names of a generation's tables."""
    found = views(await kept(queries, number, generation), generation)
    return [view.physical(queries.schema) for view in found]


async def drop_tables(queries: Queries, number: int, generation: int) -> None:
    """Drop a generation's tables; raises RebuildError where one of them is not ours, or something stands on it."""
    there: list[str] = []
    for view in views(await kept(queries, number, generation), generation):
        name = f"{quoted(queries.schema)}.{quoted(view.table)}"
        found = await queries.row("select_table_comment", name)
        if found is None:
            continue
        if not found["plain"] or found["mark"] != view.mark:
            raise RebuildError(
                f"{name} does not bear the comment {view.mark!r}: it is not what was made for generation {generation}",
                remedy="Look what it is; rename it, or give it that comment if it is the generation's after all",
            )
        there.append(name)
    if not there:
        return
    try:  # all at once: they may refer to each other
        await queries.connection.execute(f"drop table {', '.join(there)}")
    except asyncpg.DependentObjectsStillExistError as error:
        raise RebuildError(
            f"generation {generation} cannot be dropped: {error.detail or error}",
            remedy="Drop what depends on it, and try again: read models are to be read by their views",
        ) from error


async def columns(queries: Queries, schema: str, name: str) -> list[DatabaseColumn]:
    """Return the columns of a table or view in their order; none if it is not there."""
    return [
        DatabaseColumn(*row)
        for row in await queries.rows("select_columns", f"{quoted(schema)}.{quoted(name)}")
    ]


async def dependents(queries: Queries, view: PublicView) -> list[str]:
    """Return what of the user's stands on this view."""
    return [row["name"] for row in await queries.rows("select_view_dependents", view.public)]


async def must_drop(queries: Queries, view: PublicView) -> list[str]:
    """Return why this view cannot be pointed at its generation in place: columns that are gone or have another type."""
    fresh = {c.name: c for c in await columns(queries, queries.schema, view.table)}
    return [
        f"{view.schema}.{view.name}.{old.name} "
        + ("is gone" if old.name not in fresh else "has another type")
        for old in await columns(queries, view.schema, view.name)
        if fresh.get(old.name) != old
    ]


async def repoint_view(queries: Queries, view: PublicView, live: PublicView | None) -> None:
    """Point the view at its generation; readers see the one or the other, and nothing in between.

    `live` is the view over the generation it shows now. In place where it can be; otherwise it is made anew, which is
    refused while something stands on it. What stands around it is carried over, or refused by name.
    """
    shown = [c.name for c in await columns(queries, view.schema, view.name)]
    fresh = [c.name for c in await columns(queries, queries.schema, view.table)]
    order = [*(n for n in shown if n in fresh), *(n for n in fresh if n not in shown)]
    before = None if live is None else live.physical(queries.schema)
    await check_own(queries, view.public, before)
    anew = bool(await must_drop(queries, view))
    if anew:
        await refuse_dependents(queries, view)
    await exchange(queries, view.public, before, view.physical(queries.schema), order, anew=anew)


async def carry_indexes(queries: Queries, number: int, live: int, fresh: int) -> AsyncIterator[str]:
    """Make indexes that users have made on the live tables on those of another generation; tells what cannot be."""
    of = await kept(queries, number, live)
    after = await shown(queries, number, fresh)
    for view in views(of, live):
        if view.public not in after:
            continue
        declared = [f"{view.table}_{name}" for name in of[f"{view.schema}.{view.name}"].indexes]
        given = (view.physical(queries.schema), after[view.public].physical(queries.schema), declared)
        async for told in make_indexes(queries, *given):
            yield told


async def check(queries: Queries, number: int, live: int | None, fresh: int) -> None:
    """Raise what pointing the views at another generation would raise, before anything is built for it."""
    before = await shown(queries, number, live)
    for view in (await shown(queries, number, fresh)).values():
        old = before.pop(view.public, None)
        anew = bool(await must_drop(queries, view))
        if anew:
            await refuse_dependents(queries, view)
        behind = None if old is None else old.physical(queries.schema)
        await recreatable(queries, view.public, behind, view.physical(queries.schema), anew=anew)
    for view in before.values():
        await _refuse_unfed(queries, view)


async def withdraw(queries: Queries, view: PublicView) -> None:
    """Take away a view that is fed no more: its rows would go on as they are, and then with their table."""
    await _refuse_unfed(queries, view)
    await queries.connection.execute(f"drop view if exists {view.public}")


async def _refuse_unfed(queries: Queries, view: PublicView) -> None:
    await check_own(queries, view.public, view.physical(queries.schema))
    on_it = await dependents(queries, view)
    if on_it:
        raise RebuildError(
            f"{view.schema}.{view.name} is no longer fed, and {', '.join(on_it)} depends on it",
            remedy="Drop what depends on it, rebuild, and create it anew over the new name",
        )


async def refuse_dependents(queries: Queries, view: PublicView) -> None:
    """Raise RebuildError if something stands on a view that has to be made anew."""
    on_it = await dependents(queries, view)
    if on_it:
        reasons = await must_drop(queries, view)
        raise RebuildError(
            f"{', '.join(reasons)}, and {', '.join(on_it)} depends on {view.schema}.{view.name}",
            remedy="Drop what depends on it, rebuild, and create it anew over the new columns",
        )
