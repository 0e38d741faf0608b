"""Quarantine: what could not be read, or contradicts itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from projectionist.console.acts.chosen import ASIDE, options, quarantine_filter
from projectionist.console.acts.verb import needed, number
from projectionist.console.pages import command_line
from projectionist.console.screens import revealing
from projectionist.core.digest import digest, stand_in
from projectionist.ops.cli.content import quarantined_entry
from projectionist.runner.admin.quarantine_queries import QuarantineQueries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext

ROWS = 50


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show groups of what is alike, the largest first."""
    given: Mapping[str, str] = request.query_params
    async with context.reading() as db:
        found = await QuarantineQueries(db.connection, db.schema).groups(quarantine_filter(given))
    rows = [
        {**msgspec.structs.asdict(one), "why": stand_in(one.why), "own": None, "error": digest(one.why)}
        for one in found
    ]
    return await context.page(
        request,
        "quarantine.html",
        "quarantine",
        rows=rows,
        entries=sum(one.count for one in found),
        consumer=given.get("consumer") or None,
        command=command_line("quarantine", "list", *options(given, ASIDE)),
    )


async def group(context: ConsoleContext, request: Request) -> Response:
    """Show the entries of one group, the oldest first."""
    given: Mapping[str, str] = request.query_params
    async with context.reading() as db:
        found = await QuarantineQueries(db.connection, db.schema).each(quarantine_filter(given), ROWS)
    rows = [{**msgspec.structs.asdict(one), "why": stand_in(one.why), "own": None} for one in found]
    return await context.page(
        request,
        "quarantine_group.html",
        "quarantine",
        rows=rows,
        most=ROWS,
        given={name: given.get(name) or None for name in ASIDE},
        command=command_line("quarantine", "list", "--each", *options(given, ASIDE)),
    )


async def entry(context: ConsoleContext, request: Request) -> Response:
    """Show one entry; headers by name, content where it is asked for, on record."""
    given: Mapping[str, str] = request.query_params
    revealed, seq = revealing.asks(request), number(given, "seq")
    incarnation = number(given, "incarnation") if given.get("incarnation") else None
    async with context.database() if revealed else context.reading() as db:
        found = await QuarantineQueries(db.connection, db.schema).show(
            seq, needed(given, "consumer"), incarnation
        )
        if revealed:
            things = (
                f"{row['name']}: sequence {row['seq']} of incarnation {row['incarnation']}" for row in found
            )
            await revealing.record(db, request, things)
    rows = [quarantined_entry(row, revealed=revealed) for row in found]
    return await context.page(
        request,
        "quarantine_entry.html",
        "quarantine",
        rows=rows,
        seq=seq,
        revealed=revealed,
        command=command_line("quarantine", "show", seq, *options(given, ("consumer", "incarnation"))),
    )
