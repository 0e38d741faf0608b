"""The view that users read, and what stands around it: all of it is carried over to another generation, or named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import asyncpg

from projectionist.core.identifiers import quoted
from projectionist.runner.rebuild.desk import RebuildError

if TYPE_CHECKING:
    from projectionist.core.db import Row
    from projectionist.runner.rebuild.desk import Desk


class InTheWay(RebuildError):
    """Something of the user's on a view, or on the table behind it, would be lost. Nothing was changed."""


async def check_own(desk: Desk, public: str, table: str | None) -> None:
    """Raise InTheWay if the view is there and does anything but show this table of ours."""
    own = await desk.value("view_is_own", public, table)
    if own is False:
        raise InTheWay(
            f"{public} is not the view that was made over {table or 'a generation'}: somebody has defined it anew",
            remedy="Give that view another name, over this one; or drop it, and it is made again",
        )


async def exchange(
    desk: Desk, public: str, live: str | None, fresh: str, columns: Sequence[str], *, anew: bool
) -> None:
    """Have the view show `columns` of the table `fresh`, with all that stood around it over `live`.

    `anew`: it has to be dropped and made again, because PostgreSQL cannot replace it. Raises InTheWay.
    """
    await check_own(desk, public, live)
    around = [] if live is None else await _around(desk, public, live, fresh, anew=anew)
    stuck = [row["what"] for row in around if not row["statement"]]
    if stuck:
        raise InTheWay(
            f"{', '.join(stuck)} would be lost with the change of {public}",
            remedy="Drop what is named, try again, and make it again afterwards, on the view where it can be",
        )
    if anew:
        await desk.connection.execute(f"drop view if exists {public}")
    chosen = ", ".join(quoted(name, what="column") for name in columns)
    word = "create view" if live is None else "create or replace view"
    await desk.connection.execute(f"{word} {public} as\nselect {chosen} from {fresh}")
    for row in await desk.rows("policies_of", fresh) if live is not None else ():
        await desk.connection.execute(row["statement"])
    await restore(desk, [row for row in around if row["col"] is None or row["col"] in columns])
    for row in await desk.rows("owner_reads", public, fresh):
        await desk.connection.execute(row["statement"])


async def options(desk: Desk, public: str) -> list[Row]:
    """What a view loses when it is replaced in place."""
    return [row for row in await desk.rows("around_view", public) if row["kind"] == "option"]


async def restore(desk: Desk, around: Sequence[Row]) -> None:
    """Make again what stood around a view; raises InTheWay where that cannot be."""
    for row in around:
        try:
            async with desk.connection.transaction():
                await desk.connection.execute(row["statement"])
        except (asyncpg.SyntaxOrAccessError, asyncpg.DependentObjectsStillExistError) as error:
            raise InTheWay(
                f"{row['what']} cannot be made again: {error}",
                remedy="Drop it, try again, and make it again as it fits the new columns",
            ) from error


async def _around(desk: Desk, public: str, live: str, fresh: str, *, anew: bool) -> list[Row]:
    view = await desk.rows("around_view", public) if anew else await options(desk, public)
    return [*view, *await desk.rows("around_table", live, fresh)]
