"""Preview: what would the code of this console change? Rows that would differ, column by column; values on record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from projectionist.console.acts.preview_acts import KIND, USUAL, preview_path
from projectionist.console.console_database import definition_of
from projectionist.console.pages import command_line
from projectionist.console.preview_condition import preview_condition
from projectionist.console.screens import revealing
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.preview.preview_result import PreviewResult

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show the read models of the app with their last preview, or what one of them has found."""
    name = request.query_params.get("consumer")
    if name:
        return await _one(context, request, name)
    found = [one.name for one in context.app.views if one.kind is Kind.PROJECTION]
    return await context.page(
        request,
        "previews.html",
        "preview",
        rows=[(each, preview_condition(context.works.of(KIND, each))) for each in sorted(found)],
        preview_path=preview_path,
        command=command_line("preview", context.name),
    )


async def _one(context: ConsoleContext, request: Request, name: str) -> Response:
    definition = definition_of(context.app, name)
    work = context.works.of(KIND, definition.name)
    result = work.result if work is not None and isinstance(work.result, PreviewResult) else None
    revealed = revealing.asks(request)
    if revealed:
        async with context.database() as db:
            await revealing.record(db, request, [f"{definition.name}: preview"])
    changes = () if result is None else result.changes
    return await context.page(
        request,
        "preview.html",
        "preview",
        one=definition,
        work=work,
        condition=preview_condition(work),
        result=None if result is None or result.check is not None or result.left_out else result,
        changes=changes if revealed else [replace(each, live=None, new=None) for each in changes],
        revealed=revealed,
        command=command_line("preview", context.name, name, "--sample", USUAL),
    )
