"""Tells what a rebuild would do, cost and change, before anything is done; and why it would be refused."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from projectionist.core import clock
from projectionist.core.printable_text import join_first
from projectionist.projections.compiled.definition import Kind
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.projections.compiled.view_set import of_views
from projectionist.runner.batch.consumer import Consumer
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.batch.planning import UNORDERED
from projectionist.runner.batch.view import View, ViewRow
from projectionist.runner.database.queries import Build, Queries
from projectionist.runner.history.applied_filter import AppliedFilter
from projectionist.runner.history.fold_stream import Bulk
from projectionist.runner.history.handler_failures import HandlersFailed
from projectionist.runner.history.lost_events import HistoryGone, HistoryScope, forgotten_from, is_whole, lost
from projectionist.runner.history.progress import Logged
from projectionist.runner.history.unknown_rows import Lost
from projectionist.runner.jetstream import api
from projectionist.runner.read_models.generations import generations
from projectionist.runner.read_models.table_statements import keeping
from projectionist.runner.read_models.views import dependents, kept, table_names, views
from projectionist.runner.rebuild.build_state import ROWS_AT_ONCE, left_open
from projectionist.runner.rebuild.catch_up import EventsPurged
from projectionist.runner.rebuild.registration_check import views_to_build, with_looked_up

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Row
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.jetstream.api import StreamInfo

SAMPLE, SAMPLE_S = 20_000, 5.0
"""The speed is measured on so many events, or on those of so many seconds."""
LISTED = 1_000

LOCKS = (
    "batches of this consumer wait for the swap: some milliseconds, more with very many aggregates; "
    "readers wait only while the view is replaced"
)


class PlannedView(msgspec.Struct, frozen=True):
    """The generation that would be made of a view."""

    view: str
    generation: int
    joins: bool
    """Whether batches write it from then on, and not before."""


class Plan(msgspec.Struct):
    """The steps and costs of a rebuild."""

    consumer: str
    views: list[PlannedView]
    events: int
    rate: float
    """Events a second, measured on the first of the stream, fold included."""
    eta_s: float
    disk_bytes: int
    """What the new generation takes, if it becomes as large as the live one; and the spilled events."""
    aggregates: int
    kept: int
    """Older generations that are kept to go back to, and what they take: each rebuild adds one for a day."""
    kept_bytes: int
    held: int
    """Aggregates whose head waits: what they have parked stays parked, and drains after the swap."""
    decisions: int
    """Recorded decisions that are repeated."""
    changes: list[str]
    dependents: list[str]
    losing: list[str]
    """Aggregates that would lose rows, because the stream no longer holds their history."""
    open_build: str
    refused: str
    effects: int = 0
    locks: str = LOCKS


async def plan(
    queries: Queries,
    definition: ConsumerDefinition,
    settings: Settings,
    client: Client,
    named: Sequence[Definition] | None = None,
    *,
    measured_s: float = SAMPLE_S,
) -> Plan:
    """Look, and change nothing; for so long the speed is measured at most. Raises what the rebuild would raise."""
    chosen = await views_to_build(queries, definition, with_looked_up(definition, named))
    built, row = of_views(definition, [view for view, _ in chosen]), chosen[0][1]
    consumer = row["number"]
    stream = await api.stream(client, built.stream)
    losing = await losing_aggregates(queries, client, row, stream, built.known)
    found = await queries.open_build(consumer)
    if found is not None and (others := left_open(found, {one["view"] for _, one in chosen})):
        raise others
    views = [await _planned(queries, view, one) for view, one in chosen]
    facts = await queries.row("select_plan_facts", consumer, [name for one in views for name in one.tables])
    assert facts is not None, "it counts"
    rate = await _rate(built, settings, client, stream, measured_s)
    older = [
        each for _, one in chosen for each in await generations(queries, one["view"]) if each.state == "kept"
    ]
    dependent_names = [name for one in views for name in one.dependents]
    spilled = stream.state.bytes if facts["aggregates"] > ROWS_AT_ONCE else 0
    return Plan(
        consumer=definition.name,
        views=[one.made for one in views],
        events=stream.state.messages,
        rate=rate,
        eta_s=stream.state.messages / rate if rate else 0.0,
        disk_bytes=facts["bytes"] + spilled,
        aggregates=facts["aggregates"],
        kept=len(older),
        kept_bytes=await queries.value("sum_table_bytes", [name for one in older for name in one.tables]),
        held=facts["held"],
        decisions=facts["decisions"],
        changes=[change for one in views for change in one.changes],
        dependents=dependent_names,
        losing=losing,
        open_build="" if found is None else f"{found}, {found.phase}, by {found.owner}",
        refused=_refusal(losing, dependent_names),
    )


async def check_history(
    queries: Queries, client: Client, row: Row, stream: StreamInfo, handled: Container[str]
) -> None:
    """Raise HistoryGone if the rebuilt generation would lack rows."""
    await forgotten_from(queries, row["number"], stream, row["stream"])
    losing = await losing_aggregates(queries, client, row, stream, handled)
    if losing:
        raise HistoryGone(
            f"stream {row['stream']}, which begins at sequence {stream.state.first_seq}, no longer holds events that "
            f"live has applied; these would lose rows: {join_first(losing)}",
            remedy="Restore the stream, or accept the loss with --partial",
        )


async def check_met(queries: Queries, client: Client, build: Build, definition: ConsumerDefinition) -> None:
    """Raise EventsPurged if the bulk has not met all that live has applied: without order nothing else tells."""
    stream, missing = await api.stream(client, definition.stream), list[str]()

    def take(one: Lost) -> bool:
        if one.type in definition.known:
            missing.append(str(one))
        return len(missing) < LISTED

    if not is_whole(stream, build.incarnation):
        read = HistoryScope(build.consumer, build.incarnation, definition.stream, definition.subjects.filter)
        await lost(queries, client, read, take)
    if missing:
        raise EventsPurged(missing)


async def losing_aggregates(
    queries: Queries, client: Client, row: Row, stream: StreamInfo, handled: Container[str] | None = None
) -> list[str]:
    """Return the aggregates, or without order events, of which the stream no longer holds all that live has applied.

    A thousand at most. `handled`: without order, events of other types are no loss.
    """
    if is_whole(stream, row["incarnation"]):
        return []
    consumer, first = row["number"], stream.state.first_seq
    settled = await queries.row("select_lowest_applied_sequence", consumer, row["incarnation"])
    if settled is None or settled["first"] is None:
        return []
    if settled["first"] < first or settled["earlier"]:
        found = await queries.rows(
            "select_aggregates_losing_history", consumer, first, row["incarnation"], LISTED
        )
        return [each["aggregate"] for each in found] or [
            "events of no aggregate, or of which the inbox keeps nothing"
        ]
    losing: dict[str, None] = {}

    def take(one: Lost) -> bool:
        if row["sequence"] != UNORDERED or handled is None or one.type in handled:
            losing[one.aggregate or str(one)] = None
        return len(losing) < LISTED

    read = HistoryScope(consumer, row["incarnation"], row["stream"], Subjects(row["subjects"].split()).filter)
    await lost(queries, client, read, take)
    return list(losing)


def _refusal(losing: list[str], dependent_names: list[str]) -> str:
    if losing:
        return (
            f"the stream no longer holds the history of {join_first(losing)}; --partial goes on without them"
        )
    return f"drop first what depends on the view: {', '.join(dependent_names)}" if dependent_names else ""


class _ViewFacts(msgspec.Struct):
    made: PlannedView
    tables: list[str]
    changes: list[str]
    dependents: list[str]
    """What stands on a public view that has to be made anew."""


async def _planned(queries: Queries, definition: Definition, row: Row) -> _ViewFacts:
    number, generation, joins = row["view"], row["generation"], row["state"] == "joining"
    made = PlannedView(definition.name, await queries.value("select_next_generation", number), joins)
    if await queries.row("select_generation", number, generation) is None:
        return _ViewFacts(made, [], [f"{name} is new" for name in keeping(definition)], [])
    changes, dependent_names = await _changes(queries, definition, number, generation)
    return _ViewFacts(made, await table_names(queries, number, generation), changes, dependent_names)


async def _changes(
    queries: Queries, definition: Definition, number: int, generation: int
) -> tuple[list[str], list[str]]:
    """Return what becomes of columns, and what stands on a view that has to be made anew."""
    before, after = await kept(queries, number, generation), keeping(definition)
    changes = [f"{name} is no longer fed" for name in before if name not in after]
    changes += [f"{name} is new" for name in after if name not in before]
    dependent_names: list[str] = []
    for view in views(before, generation):
        name = f"{view.schema}.{view.name}"
        old = {column.name: column.sql_type for column in before[name].columns}
        new = {c.name: c.sql_type for c in after[name].columns} if name in after else {}
        gone = [f"{name}.{c} is gone" for c in old if c not in new]
        gone += [f"{name}.{c} becomes {new[c]}" for c in old if c in new and new[c] != old[c]]
        changes += [*gone, *(f"{name}.{c} is new" for c in new if c not in old)] if new else []
        if gone and new:
            dependent_names += await dependents(queries, view)
    return changes, dependent_names


async def _rate(
    definition: ConsumerDefinition, settings: Settings, client: Client, stream: StreamInfo, measured_s: float
) -> float:
    """Return events a second, reading and folding the first of them; nothing is written."""
    unmeasured = any(view.kind is Kind.SQL or view.references or view.looks_up for view in definition.views)
    if unmeasured or not stream.state.messages:
        return 0.0
    views = [View(view, view.name, None, ViewRow()) for view in definition.views]
    consumer = Consumer(definition, settings.policy(definition.name), 0, 0, views)
    judge = AppliedFilter(UNORDERED, {}, Decisions())
    bulk = Bulk(client, consumer, judge, Decisions(), Logged(definition.name))
    first, fold = stream.state.first_seq, bulk.folding().fold
    began = clock.now()
    try:
        async with aclosing(bulk.read(definition.subjects.filter, first, first + SAMPLE - 1, fold)) as slices:
            async for _ in slices:
                if clock.now() - began > measured_s:
                    break
    except HandlersFailed:
        return 0.0
    return bulk.events / (clock.now() - began)
