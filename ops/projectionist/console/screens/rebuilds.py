"""Rebuilds: may it swap? Read models with their builds; the generations of one, and what differs."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from projectionist.console.acts.rebuild_acts import BOX, KIND, rebuild_path
from projectionist.console.acts.verb import needed
from projectionist.console.build_condition import BuildCondition, build_condition, made_of, phases, waits_for
from projectionist.console.pages import command_line
from projectionist.console.screens import revealing
from projectionist.ops.cli.content import without_row
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.read_models.generations import generations
from projectionist.runner.rebuild.open_builds import open_builds
from projectionist.runner.rebuild.rebuild import Rebuilt
from projectionist.runner.rebuild.registration_check import registered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record
    from starlette.requests import Request
    from starlette.responses import Response

    from projectionist.console.background_work import BackgroundWork
    from projectionist.console.console_context import ConsoleContext
    from projectionist.console.console_database import ConsoleDatabase
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.consumers.status import ConsumerStatus
    from projectionist.runner.rebuild.table_pairs import Difference

RANK = {"act": 0, "busy": 1, "ok": 2}
SHOWN = 50


class RebuildRow(msgspec.Struct, frozen=True):
    """A read model of the list, or a set of views."""

    name: str
    condition: BuildCondition
    generation: int | None
    revision: int | None
    """Of what is live; of a set each view has its own."""
    code: int | None
    """The revision of this code."""


async def show(context: ConsoleContext, request: Request) -> Response:
    """Show the read models of the app, those whose builds wait for somebody first."""
    seen = await context.look(request)
    status = {one.name: one for one in seen.status.consumers}
    async with context.reading() as db:
        found = await open_builds(db.queries)
    opened = {name: list(builds) for name, builds in groupby(found, lambda one: one.consumer)}
    rows = []
    for one in context.app.definitions:
        if all(view.kind is Kind.REACTOR for view in one.views):
            continue
        live, builds = status.get(one.name), opened.get(one.name, [])
        condition = build_condition(
            builds, context.works.of(KIND, one.name), raised=live is not None and _is_raised(one, live)
        )
        rows.append(
            RebuildRow(
                one.name,
                condition,
                None if live is None else live.generation,
                None if live is None else live.revision,
                None if one.views[0].is_member else one.views[0].revision,
            )
        )
    return await context.page(
        request,
        "rebuilds.html",
        "rebuilds",
        rows=sorted(rows, key=lambda row: (RANK[row.condition.tone], row.name)),
        others=sorted(opened.keys() - {row.name for row in rows}),
        rebuild_path=rebuild_path,
        command=_listing(context, context.app.views),
    )


def _is_raised(one: ConsumerDefinition, live: ConsumerStatus) -> bool:
    """Return whether the code of a view that batches write has a higher revision than its rows."""
    if live.revision is not None:
        return one.views[0].revision > live.revision
    written = {view.name: view.revision for view in live.views if view.state == "live"}
    return any(view.revision > written.get(view.name, view.revision) for view in one.views)


def _listing(context: ConsoleContext, views: Sequence[Definition]) -> str | None:
    """Return the command that lists the generations of the first of these views that has rows."""
    first = next((view for view in views if view.kind is not Kind.REACTOR), None)
    return None if first is None else command_line("generations", "list", context.name, first.full_name)


async def one(context: ConsoleContext, request: Request) -> Response:
    """Show the generations of one, the build that is open, and what differs; of a set its views. Values where they are
    asked for, on record."""
    name, revealed = needed(request.query_params, "consumer"), revealing.asks(request)
    async with context.database() if revealed else context.reading() as db:
        consumer = db.consumer(name)
        members = consumer.views[0].is_member
        if members and name == consumer.name:
            rows, view, found = await _rows(db, consumer), None, []
        else:
            view = db.definition(name)
            rows = [(view, await registered(db.queries, view, going_back=True))]
            found = await generations(db.queries, rows[0][1]["view"])
        builds = await open_builds(db.queries, consumer.name)
        if revealed:
            await revealing.record(db, request, [f"{consumer.name}: rebuild"])
    work = context.works.of(KIND, consumer.name)
    raised = any(each.revision > row["revision"] for each, row in rows if row["state"] == "live")
    condition = build_condition(builds, work, raised=raised)
    opened = next(iter(builds), None)
    waits = waits_for(opened, work)
    differing = _made(work) if waits is None else waits.differences
    return await context.page(
        request,
        "rebuild.html",
        "rebuilds",
        name=consumer.name if view is None else view.full_name,
        consumer=consumer,
        rows=rows,
        box=BOX,
        is_set=view is None,
        is_member=members,
        rebuild_path=rebuild_path,
        generations=found,
        opened=opened,
        made=made_of(consumer.name, builds),
        work=work,
        condition=condition,
        phases=[] if opened is None else phases(opened, condition),
        can_accept=condition.waits and waits is not None,
        differing=differing[:SHOWN] if revealed else [without_row(each) for each in differing[:SHOWN]],
        differ=len(differing),
        revealed=revealed,
        command=_listing(context, consumer.views if view is None else [view]),
    )


async def _rows(db: ConsoleDatabase, consumer: ConsumerDefinition) -> list[tuple[Definition, Record]]:
    """Return the views of a set with their registrations; those alone that are on record."""
    known = {row["view_name"]: row for row in await db.queries.rows("select_consumer_views", consumer.name)}
    return [(view, known[view.name]) for view in consumer.views if view.name in known]


def _made(work: BackgroundWork | None) -> list[Difference]:
    """Return the rows that the last build of this console has made other than the live ones were."""
    made = work.result.views if work is not None and isinstance(work.result, Rebuilt) else []
    return [difference for view in made for difference in view.compared.differences]
