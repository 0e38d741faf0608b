"""Operations: what runs, who began it, does it need me?"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from projectionist.console.acts.verb import number
from projectionist.console.operation_condition import operation_condition, sample_steps, tone
from projectionist.console.pages import command_line
from projectionist.runner.operations.operation_store import OperationStore

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext

ROWS = 50


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show those that have not ended, and the newest that have; of these fifty, and older ones by a link."""
    before = number(request.query_params, "before") if request.query_params.get("before") else None
    async with context.reading() as db:
        store = OperationStore(db.connection, db.schema)
        opened = await store.each(only_open=True)
        found = await store.each(before=before, limit=ROWS)
    return await context.page(
        request,
        "operations.html",
        "operations",
        opened=opened,
        past=[one for one in found if one.ended is not None],
        before=before,
        older=found[-1].number if len(found) == ROWS else None,
        tone=tone,
        command=command_line("operations", "list"),
    )


async def one(context: ConsoleContext, request: Request) -> Response:
    """Show one: its samples, what failed again, and who carries it out."""
    async with context.reading() as db:
        store = OperationStore(db.connection, db.schema)
        found = await store.show(number(request.query_params, "number"))
        page = await store.page(found.number, ROWS)
    groups = [list(of_group) for _, of_group in groupby(page.samples, lambda sample: sample.alike)]
    return await context.page(
        request,
        "operation.html",
        "operations",
        one=found,
        condition=operation_condition(found),
        groups=[(group[0].consumer, sample_steps(group)) for group in groups],
        more=page.groups - len(groups),
        items=page.not_done,
        command=command_line("operations", "watch", found.number),
    )
