"""A row as it is by its events, as it was at a moment, and what each event changed; values on record alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from projectionist.console.acts.verb import needed
from projectionist.console.pages import command_line, flag
from projectionist.console.screens import revealing
from projectionist.core.errors import ProjectionistError
from projectionist.ops.cli.content import hidden
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.history.progress import Logged
from projectionist.runner.preview.row_history import PastRow, row_at

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.projections.compiled.definition import Definition

MOST_READ = 10_000
"""So many messages of the stream are read for a page; the command line reads all."""
STATES = 50


class PageProgress(Logged):
    """Reads no more than a page may."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._left = MOST_READ

    async def advance(self, done: int) -> None:
        """Count them; raise RebuildError where they are too many."""
        self._left -= done
        if self._left < 0:
            raise RebuildError(
                f"more than {MOST_READ:,} events have to be read for this row, which takes longer than a page may",
                remedy="Take the command line below",
            )
        await super().advance(done)


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show one row: how its events make it now, and at a version, a time or a sequence."""
    given = request.query_params
    name, key, at = needed(given, "consumer"), given.get("key", ""), given.get("at", "").strip() or None
    revealed, problem = revealing.asks(request), ""
    now: PastRow | None = None
    then: PastRow | None = None
    async with context.database() as db:
        definition = db.definition(name)
        if key and revealed:
            await revealing.record(db, request, [f"{name}: row {key}"])
        try:
            if key:
                now, then = await _folded(db, definition, key, at)
        except ProjectionistError as refused:
            problem = str(refused)
    columns = _columns(now, then)
    return await context.page(
        request,
        "row.html",
        "overview",
        status=409 if problem else 200,
        consumer=name,
        key=key,
        at_=at,
        problem=problem,
        now=now if revealed or now is None else _masked(now),
        then=then if revealed or then is None else _masked(then),
        columns=columns,
        revealed=revealed,
        command=command_line("row", context.name, name, *flag("at", at), "--history", of=key or "KEY"),
    )


async def _folded(
    db: ConsoleDatabase, definition: Definition, key: str, at: str | None
) -> tuple[PastRow, PastRow | None]:
    await db.connection.execute("set default_transaction_read_only = on")
    async with db.broker() as client:
        given = (db.queries, definition, db.settings, client, key, PageProgress(definition.name))
        now = await row_at(*given, states=STATES)
        return now, None if at is None else await row_at(*given, at)


def _columns(now: PastRow | None, then: PastRow | None) -> list[tuple[str, bool]]:
    """Return the columns of a row, and whether each is another one at the moment that was asked for."""
    row, before = (None if one is None else one.row for one in (now, then))
    other = {} if row is None or before is None else before
    return [(name, name in other and (row or {})[name] != other[name]) for name in row or before or {}]


def _masked(one: PastRow) -> PastRow:
    states = [replace(state, changed=hidden(state.changed)) for state in one.states]
    return replace(one, row=hidden(one.row), states=states)
