"""Streams: what the broker holds, and who has not read it yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.needs import behind_s, consumer_path
from projectionist.console.pages import command_line
from projectionist.runner.jetstream.api import StreamInfo

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext

NANO = 1e9


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show them as the broker described them some seconds ago."""
    seen = await context.look(request)
    found = {name: one for name, one in seen.streams.items() if isinstance(one, StreamInfo)}
    lacking = {name: one for name, one in seen.streams.items() if isinstance(one, str)}
    limited = {
        name
        for name, one in found.items()
        if one.config.max_age or one.config.max_msgs > 0 or one.config.max_bytes > 0
    }
    unread = [one for one in seen.status.consumers if one.stream in limited and (one.lag or one.paused)]
    return await context.page(
        request,
        "streams.html",
        "streams",
        found=found,
        lacking=lacking,
        unread=sorted(unread, key=lambda one: -(one.lag or 0)),
        keeps={name: _keeps(one) for name, one in found.items()},
        first={name: one.state.first_ts if one.state.messages else None for name, one in found.items()},
        consumer_path=consumer_path,
        behind_s=behind_s,
        command=command_line("doctor", context.name, "--all"),
    )


def _keeps(one: StreamInfo) -> float | None:
    """Return for how long a stream keeps a message; None: for ever, as far as its age goes."""
    return one.config.max_age / NANO if one.config.max_age else None
