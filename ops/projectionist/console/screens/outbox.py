"""Outbox: does what was promised happen? Intents by group, those of a group, one of them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.console.acts.chosen import INTENTS, intent_filter, options
from projectionist.console.acts.verb import needed
from projectionist.console.needs import needs, provider_condition
from projectionist.console.pages import command_line
from projectionist.console.screens import revealing
from projectionist.core.digest import digest
from projectionist.ops.cli.content import without_content
from projectionist.outbox.admin.intent_actions import FOR_A_PERSON, IntentActions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.console_context import ConsoleContext

ROWS = 50


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show providers, groups of intents, those that wait for somebody first, and lanes that stand."""
    given: Mapping[str, str] = request.query_params
    seen = await context.look(request)
    async with context.reading() as db:
        actions = IntentActions(db.connection, db.schema)
        found = await actions.groups_page(intent_filter(given), ROWS)
    rows = []
    for one in found.groups:
        row = without_content(msgspec.structs.asdict(one), found.outcomes.get(one.sample, ""))
        chosen = {"state": one.state, "provider": one.provider}
        row["chosen"] = chosen | ({"error": digest(one.error)} if one.error else {})
        rows.append(row)
    return await context.page(
        request,
        "outbox.html",
        "outbox",
        needs=[one for one in needs(seen.status) if one.about.startswith("Outbox")],
        providers=[(one, provider_condition(one)) for one in seen.status.outbox.providers],
        relays=seen.status.outbox.relays,
        scheduled=seen.status.outbox.scheduled,
        waiting=[row for row in rows if row["state"] in FOR_A_PERSON],
        others=[row for row in rows if row["state"] not in FOR_A_PERSON],
        all_groups=found.all_groups,
        most=ROWS,
        lanes=[
            without_content(msgspec.structs.asdict(lane), found.outcomes.get(lane.key, ""))
            for lane in found.lanes
        ],
        for_a_person=FOR_A_PERSON,
        provider=given.get("provider") or None,
        standing=command_line("outbox", "lanes", *options(given, ("provider",))),
        command=command_line("outbox", "list", *options(given, INTENTS)),
    )


async def group(context: ConsoleContext, request: Request) -> Response:
    """Show the intents of one group, the oldest first; of many the first fifty."""
    given: Mapping[str, str] = request.query_params
    async with context.reading() as db:
        found = await IntentActions(db.connection, db.schema).page(intent_filter(given), ROWS)
    rows = msgspec.to_builtins(found.intents, builtin_types=(datetime,))
    return await context.page(
        request,
        "outbox_group.html",
        "outbox",
        rows=[without_content(row, found.outcomes.get(row["key"], "")) for row in rows],
        count=found.count,
        given={name: given.get(name) or None for name in INTENTS},
        command=command_line("outbox", "list", "--each", *options(given, INTENTS)),
    )


async def intent(context: ConsoleContext, request: Request) -> Response:
    """Show one intent, its attempts and what was done by hand; content where it is asked for, on record."""
    revealed, key = revealing.asks(request), needed(request.query_params, "key")
    async with context.database() if revealed else context.reading() as db:
        found = await IntentActions(db.connection, db.schema).show(key)
        if revealed:
            await revealing.record(db, request, [f"intent {found['key']}"])
    attempts, acts, body = found.pop("attempts"), found.pop("acts"), found.pop("body")
    for name in ("hash", "wire_hash"):
        found[name] = None if found[name] is None else bytes(found[name]).hex()
    return await context.page(
        request,
        "outbox_intent.html",
        "outbox",
        one=found if revealed else without_content(found),
        attempts=attempts if revealed else [without_content(each) for each in attempts],
        acts=acts,
        body=bytes(body).decode("utf-8", "backslashreplace") if revealed else None,
        revealed=revealed,
        command=command_line("outbox", "show", of=key),
    )
