"""Doctor: what is set wrong, and what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.console_context import go_to
from projectionist.console.pages import command_line
from projectionist.ops.doctor.check import Level

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show what was found within the last five minutes."""
    at, examined = await context.doctor()
    by_level = {level: [one for one in examined.checks if one.level == level] for level in Level}
    return await context.page(
        request,
        "doctor.html",
        "doctor",
        at_=at,
        act=by_level[Level.ATTENTION],
        notes=by_level[Level.NOTE],
        well=by_level[Level.WELL],
        looked=len(examined.checks),
        command=command_line("doctor", context.name, "--all"),
    )


async def look_again(context: ConsoleContext, request: Request) -> Response:
    """Look now."""
    await context.doctor(again=True)
    return go_to(request, "/doctor")
