"""Rebuilds: may it swap? Read models with their builds; the generations of one, and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.console.acts.rebuild_acts import KIND, rebuild_path
from projectionist.console.acts.verb import needed
from projectionist.console.build_condition import build_condition, phases, waits_for
from projectionist.console.pages import command_line
from projectionist.console.screens import revealing
from projectionist.ops.cli.content import without_row
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.read_models.generations import generations
from projectionist.runner.rebuild.open_builds import open_builds
from projectionist.runner.rebuild.rebuild import Rebuilt
from projectionist.runner.rebuild.registration_check import registered

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.background_work import BackgroundWork
    from projectionist.console.console_context import ConsoleContext
    from projectionist.runner.rebuild.table_pairs import Difference

RANK = {"act": 0, "busy": 1, "ok": 2}
SHOWN = 50


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show the read models of the app, those whose builds wait for somebody first."""
    seen = await context.onlooker.look()
    status = {one.name: one for one in seen.status.consumers}
    async with context.database() as db:
        opened = {one.consumer: one for one in await open_builds(db.queries)}
    rows = []
    for one in context.app.views:
        if one.kind is Kind.REACTOR or one.is_member:
            continue
        live = status.get(one.name)
        raised = live is not None and live.revision is not None and one.revision > live.revision
        work = context.works.of(KIND, one.name)
        rows.append((one, live, build_condition(opened.get(one.name), work, raised=raised)))
    return await context.page(
        request,
        "rebuilds.html",
        "rebuilds",
        rows=sorted(rows, key=lambda row: (RANK[row[2].tone], row[0].name)),
        others=sorted(opened.keys() - {one.name for one, _, _ in rows}),
        rebuild_path=rebuild_path,
        command=command_line("generations", "list", context.name, rows[0][0].name) if rows else None,
    )


async def one(context: ConsoleContext, request: Request) -> Response:
    """Show the generations of one, the build that is open, and what differs; values where they are asked for, on
    record."""
    name, revealed = needed(request.query_params, "consumer"), revealing.asks(request)
    async with context.database() as db:
        definition = db.definition(name)
        row = await registered(db.queries, definition, going_back=True)
        found = await generations(db.queries, row["view"])
        opened = next(iter(await open_builds(db.queries, name)), None)
        if revealed:
            await revealing.record(db, request, [f"{name}: rebuild"])
    work = context.works.of(KIND, name)
    condition = build_condition(opened, work, raised=definition.revision > row["revision"])
    waits = waits_for(opened, work)
    differing = _made(work) if waits is None else waits.differences
    return await context.page(
        request,
        "rebuild.html",
        "rebuilds",
        one=definition,
        row=row,
        generations=found,
        opened=opened,
        work=work,
        condition=condition,
        phases=[] if opened is None else phases(opened, condition),
        can_accept=condition.waits and waits is not None,
        differing=differing[:SHOWN] if revealed else [without_row(each) for each in differing[:SHOWN]],
        differ=len(differing),
        revealed=revealed,
        command=command_line("generations", "list", context.name, name),
    )


def _made(work: BackgroundWork | None) -> list[Difference]:
    """Return the rows that the last build of this console has made other than the live ones were."""
    made = work.result.views if work is not None and isinstance(work.result, Rebuilt) else []
    return [difference for view in made for difference in view.compared.differences]
