"""Incidents: what must not be explained away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.pages import command_line, flag
from projectionist.ops.cli.content import without_answer
from projectionist.runner.admin.incidents import Incidents

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext

MOST = 200


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show those that are open, the oldest first; what providers have answered is masked."""
    consumer, kind = (request.query_params.get(name) or None for name in ("consumer", "kind"))
    async with context.reading() as db:
        found = await Incidents(db.connection, db.schema).each(consumer, kind, closed=False, limit=MOST)
    rows = [without_answer(dict(row)) for row in found]
    return await context.page(
        request,
        "incidents.html",
        "incidents",
        rows=rows,
        most=MOST,
        consumer=consumer,
        kind=kind,
        command=command_line("incidents", "list", "--each", *flag("consumer", consumer), *flag("kind", kind)),
    )
