"""Map: what hangs on what? Made of the app, with how each part is; and the same as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.app_map import CONSUMER, PROVIDER, STREAM, app_map, map_lines
from projectionist.console.needs import Condition, condition, consumer_path, needs, provider_condition
from projectionist.console.pages import command_line

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext

UNKNOWN = Condition("idle", "has not run yet")


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show it: what hangs together from the app, how it is from the snapshot."""
    seen, app = await context.look(request), context.app
    needed = {one.about for one in needs(seen.status)}
    consumers = {one.name: condition(one, needed) for one in seen.status.consumers}
    lines = map_lines(app.definitions)
    conditions = {line.consumer: consumers.get(line.consumer, UNKNOWN) for line in lines}
    providers = {one.name: provider_condition(one) for one in seen.status.outbox.providers}
    tones = {(CONSUMER, name): one.tone for name, one in conditions.items()}
    tones |= {(PROVIDER, name): one.tone for name, one in providers.items()}
    tones |= {(STREAM, name): "act" for name, one in seen.streams.items() if isinstance(one, str)}
    return await context.page(
        request,
        "app_map.html",
        "map",
        drawn=app_map(lines, [one.name for one in app.streams], app.providers, tones),
        lines=lines,
        conditions=conditions,
        waiting=sum(one.tone == "act" for one in conditions.values()),
        consumer_path=consumer_path,
        command=command_line("asyncapi", context.name),
    )
