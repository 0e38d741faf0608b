"""Overview: must somebody act? And a line for each consumer and provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.needs import (
    behind_s,
    by_itself,
    condition,
    consumer_path,
    needs,
    provider_condition,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext

RANK = {"act": 0, "wait": 1, "ok": 2, "idle": 3}


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show it: all of it from the snapshot."""
    seen = await context.look(request)
    found = needs(seen.status)
    needed = {one.about for one in found}
    consumers = [(one, condition(one, needed)) for one in seen.status.consumers]
    providers = [(one, provider_condition(one)) for one in seen.status.outbox.providers]
    return await context.page(
        request,
        "overview.html",
        "overview",
        needs=found,
        by_itself=by_itself(seen.status),
        consumers=sorted(consumers, key=lambda pair: (RANK[pair[1].tone], pair[0].name)),
        providers=sorted(providers, key=lambda pair: (RANK[pair[1].tone], pair[0].name)),
        consumer_path=consumer_path,
        behind_s=behind_s,
        app_name=context.name,
    )


async def frame(context: ConsoleContext, request: Request) -> Response:
    """Show what is around each page: an open page that does not live itself asks for it."""
    return await context.page(request, "base.html", request.query_params.get("here", ""))
