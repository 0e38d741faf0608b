"""Journey: what became of an event? Aggregate: where does it stand? And search, which leads to both."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from projectionist.console.acts.row_acts import row_path
from projectionist.console.acts.verb import needed
from projectionist.console.console_context import go_to
from projectionist.console.pages import command_line, flag
from projectionist.console.screens import revealing
from projectionist.console.stretches import stretches
from projectionist.console.waterfall import answer, waterfall
from projectionist.core.operator import NotThere
from projectionist.core.states import AggregateState
from projectionist.ops.cli.content import masked_journey
from projectionist.runner.admin.event_history import Journeys
from projectionist.runner.admin.flow_history import BY, Flows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext
    from projectionist.console.stretches import Stretch
    from projectionist.ops.cli.database import Database
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.admin.event_history import AggregateStatus, Journey
    from projectionist.runner.admin.flow_history import By

ROWS = 50
LINES = 500
"""So many lines of a waterfall a page has, but for one event that has more."""
LONGEST = 1_000
"""So many characters are looked for at most: no id has more."""


def _journeys(db: Database) -> Journeys:
    kept = db.settings.retention
    folder = kept.archive_folder if kept.archive == "files" else None
    return Journeys(db.connection, db.schema, Path(folder) if folder else None)


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show what became of one event, with each consumer that knows it, its intents and their attempts."""
    event, source = request.query_params.get("id", ""), request.query_params.get("source") or None
    revealed = revealing.asks(request)
    async with context.database() if revealed else context.reading() as db:
        journeys = _journeys(db)
        found = await journeys.events(event, source)
        if revealed:
            things = (f"{each.consumer}: {one.source}/{one.id}" for one in found for each in one.consumers)
            await revealing.record(db, request, things)
    shown, now = found if revealed else list(map(masked_journey, found)), datetime.now(UTC)
    drawn = [stretches(one) for one in shown]
    return await context.page(
        request,
        "journey.html",
        "journey",
        found=[(one, waterfall(parts, now)) for one, parts in zip(shown, drawn, strict=True)],
        answer=answer([part for parts in drawn for part in parts], now),
        notes=journeys.notes,
        event=event,
        revealed=revealed,
        indexed={
            "correlation": context.settings.postgres.correlation_index,
            "trace": context.settings.postgres.trace_index,
        },
        trace_page=context.settings.telemetry.trace_page,
        command=command_line("journey", *flag("source", source or None), of=event),
    )


async def aggregate(context: ConsoleContext, request: Request) -> Response:
    """Show where an aggregate stands with each consumer, and its newest versions."""
    name = request.query_params.get("name", "")
    async with context.reading() as db:
        journeys = _journeys(db)
        found = await journeys.aggregate(name, None, ROWS)
    return await context.page(
        request,
        "aggregate.html",
        "journey",
        found=found,
        name_=name,
        rows=_rows(context.app.views, name),
        missing={one.consumer: missing(one) for one in found},
        notes=journeys.notes,
        command=command_line("journey", *flag("aggregate", name)),
    )


def missing(one: AggregateStatus) -> str:
    """Say which versions are missing before the first that waits, as far as these events tell; none: nothing. Pure.

    Versions that a consumer may do without are not missing where an event behind them has failed.
    """
    if one.head != AggregateState.GAP and one.finding is None:
        return ""
    waiting = [each["version"] for each in one.events if each["state"] == "parked" and each["version"]]
    if len(waiting) < one.parked or not waiting or min(waiting) == one.version + 1:
        return ""
    first, last = one.version + 1, min(waiting) - 1
    return f"Version {first} is missing." if first == last else f"Versions {first} to {last} are missing."


def _rows(definitions: Iterable[Definition], aggregate: str) -> dict[str, str]:
    """Return the pages of the rows that are this aggregate's own, by consumer."""
    key = aggregate.partition("/")[2]
    return {
        one.name: row_path(one.name, key)
        for one in definitions
        if one.table is not None
        and one.table.key is not None
        and not one.table.key.several
        and all(handler.own for handler in one.handlers.values())
    }


async def search(context: ConsoleContext, request: Request) -> Response:
    """Look for an event, an aggregate, an intent and a correlation of this name; go there if it is one alone."""
    text = request.query_params.get("q", "").strip()[:LONGEST]
    async with context.reading() as db:
        found = await _search(db, text) if text else []
    if len(found) == 1:
        return go_to(request, found[0][2])
    return await context.page(
        request,
        "search.html",
        "journey",
        text=text,
        found=found,
        correlations=context.settings.postgres.correlation_index,
        traces=context.settings.postgres.trace_index,
        command=command_line("journey", of=text),
    )


async def flow(context: ConsoleContext, request: Request) -> Response:
    """Show the events of one correlation id or trace, with what became of each."""
    by: By = "trace" if "trace" in request.query_params else "correlation"
    name = needed(request.query_params, by)
    async with context.reading() as db:
        found = await _flows(db).find(by, name, ROWS)
    drawn, now = _within([stretches(masked_journey(one)) for one in found.events], LINES), datetime.now(UTC)
    return await context.page(
        request,
        "flow.html",
        "journey",
        flow=found,
        shown=sum(one.depth == 0 for one in drawn),
        drawn=waterfall(drawn, now),
        answer=answer(drawn, now),
        trace_page=context.settings.telemetry.trace_page,
        command=command_line("journey", *flag(by, name)),
    )


def _within(found: Iterable[list[Stretch]], most: int) -> list[Stretch]:
    """Return the stretches of the first events, as many of these as fit. Pure."""
    shown: list[Stretch] = []
    for parts in found:
        if shown and len(shown) + len(parts) > most:
            break
        shown += parts
    return shown


def _flows(db: Database) -> Flows:
    return Flows(db.connection, db.schema, db.settings.postgres)


async def _found_flow(flows: Flows, by: By, name: str) -> list[tuple[str, str, str]]:
    """Return where a flow is shown, if there is one: of one event alone that is its journey."""
    if not flows.is_indexed(by):
        return []
    found = await flows.find(by, name, 1)
    if found.more:
        return [(by, name, f"/flow?{urlencode([(by, name)])}")]
    return [(by, f"{one.type} {one.id}", _journey_path(one)) for one in found.events]


def _journey_path(one: Journey) -> str:
    return f"/journey?{urlencode({'id': one.id, 'source': one.source})}"


async def _search(db: Database, text: str) -> list[tuple[str, str, str]]:
    """Return what has this name: its kind, how it is told, and its page."""
    journeys, found = _journeys(db), list[tuple[str, str, str]]()
    try:
        for one in await journeys.events(text):
            found.append(("event", f"{one.type or 'event'} {one.id} of {one.source}", _journey_path(one)))
    except NotThere:
        pass
    try:
        if await journeys.aggregate(text, None, 1):
            found.append(("aggregate", text, f"/aggregate?{urlencode({'name': text})}"))
    except NotThere:
        pass
    try:
        if await journeys.intent(text):
            found.append(("intent", text, f"/outbox/intent?{urlencode({'key': text})}"))
    except NotThere:
        pass
    for by in BY:
        found += await _found_flow(_flows(db), by, text)
    return found
