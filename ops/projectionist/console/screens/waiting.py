"""Waiting: what stands still, and for whom? Parked events by group, those of a group, one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.console.acts.chosen import PARKED, options, parked_filter
from projectionist.console.pages import command_line
from projectionist.console.screens import revealing
from projectionist.ops.cli.content import parked_event, why_parked
from projectionist.runner.admin.parked_queries import ParkedQueries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext
    from projectionist.runner.admin.parked_queries import ParkedEntry, ParkedGroup

ROWS = 50
FILTERS = ("consumer", "cause", "type", "aggregate")


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show groups of what is alike: those that wait for somebody first."""
    given: Mapping[str, str] = request.query_params
    async with context.reading() as db:
        queries = ParkedQueries(db.connection, db.schema)
        found = await queries.groups(parked_filter(given))
        by_sample = {(one.consumer, one.source, one.sample): one for one in found}
        rows = _masked(by_sample, await queries.failures(list(by_sample)))
    for row, group in zip(rows, found, strict=True):
        row["chosen"] = {name: getattr(group, name) for name in ("consumer", "cause", "type")}
        row["chosen"]["error"] = group.alike
    return await context.page(
        request,
        "waiting.html",
        "waiting",
        waiting=[row for row in rows if row["waiting"]],
        others=[row for row in rows if not row["waiting"]],
        given={name: given.get(name) or None for name in FILTERS},
        filtered=any(given.get(name) for name in FILTERS),
        command=command_line("parked", "list", *options(given, PARKED)),
    )


async def group(context: ConsoleContext, request: Request) -> Response:
    """Show the events of one group, the first in the stream first; of many the first fifty."""
    given: Mapping[str, str] = request.query_params
    async with context.reading() as db:
        found = await ParkedQueries(db.connection, db.schema).page(parked_filter(given), ROWS)
    groups, rows = found.groups, _masked({one.key: one for one in found.events}, found.failures)
    return await context.page(
        request,
        "waiting_group.html",
        "waiting",
        rows=rows,
        count=sum(one.count for one in groups),
        waiting=sum(one.waiting for one in groups),
        bounded=any(one.bounded for one in groups),
        oldest=min((one.oldest for one in groups), default=None),
        given={name: given.get(name) or None for name in PARKED},
        command=command_line("parked", "list", "--each", *options(given, PARKED)),
    )


async def event(context: ConsoleContext, request: Request) -> Response:
    """Show one event: what is known of it, what was tried; content where it is asked for, on record."""
    given: Mapping[str, str] = request.query_params
    revealed, event_id = revealing.asks(request), given.get("id", "")
    async with context.database() if revealed else context.reading() as db:
        queries = ParkedQueries(db.connection, db.schema)
        found = await queries.show(event_id, given.get("consumer") or None, given.get("source") or None)
        keys = [(row["name"], row["source"], row["id"]) for row in found]
        if revealed:
            await revealing.record(db, request, (f"{name}: {source}/{id_}" for name, source, id_ in keys))
        failures = {} if revealed else await queries.failures(keys)
    rows = [parked_event(row, failures, revealed=revealed) for row in found]
    return await context.page(
        request,
        "waiting_event.html",
        "waiting",
        rows=rows,
        event_id=event_id,
        revealed=revealed,
        command=command_line("parked", "show", *options(given, ("consumer", "source")), of=event_id),
    )


def _masked(
    found: Mapping[tuple[str, str, str], ParkedEntry | ParkedGroup],
    failures: Mapping[tuple[str, str, str], str],
) -> list[dict[str, Any]]:
    """Return rows whose errors are told by class, place and digest."""
    rows = []
    for key, one in found.items():
        row = msgspec.structs.asdict(one)
        del row["own"]
        row["why"] = why_parked(row, failures.get(key, ""))
        rows.append(row)
    return rows
