"""Checks that classes and registrations fit, so that history can be folded; and how far live has settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.projections.compiled.definition import Definition, Kind
from projectionist.runner.consumers.registry import disagreement
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.jetstream import api

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Row
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.database.queries import Queries


async def registered(queries: Queries, definition: Definition, *, going_back: bool = False) -> Record:
    """Return the registration of a view; raises RebuildError where its rows cannot be folded by its class."""
    row = await queries.row("select_view", definition.name)
    if row is None or row["state"] == "retired":
        raise _unknown(definition)
    _check(definition, row, going_back=going_back)
    return row


async def views_to_build(
    queries: Queries,
    definition: ConsumerDefinition,
    named: Sequence[Definition] | None = None,
    *,
    going_back: bool = False,
) -> list[tuple[Definition, Record]]:
    """Return what a build is of, each view with its registration: those that are named, else all that can be built.

    All: views with rows that batches write, and views that join. Raises RebuildError where a rebuild cannot follow its
    class.
    """
    rows = {row["view_name"]: row for row in await queries.rows("select_consumer_views", definition.name)}
    if not rows:
        raise _unknown(definition)
    found: list[tuple[Definition, Record]] = []
    for view in definition.views if named is None else named:
        if (row := rows.get(view.name)) is None or row["state"] == "retired":
            raise _unknown(view)
        if named is None and view.is_member and _is_left(view, row):
            continue
        if row["state"] == "detached":
            raise RebuildError(
                f"{view.full_name} is detached: batches leave it out",
                remedy=f"`projectionist views attach {view.full_name} --reason …` has it join the others again",
            )
        _check(view, row, going_back=going_back)
        found.append((view, row))
    if not found:
        raise RebuildError(f"{definition.name} has no view with rows that batches write, and none that joins")
    return found


async def waiting_views(
    queries: Queries, definition: ConsumerDefinition, named: Sequence[Definition] | None
) -> list[Definition]:
    """Return those of these views that wait to be built; what has joined meanwhile, or has left, does not."""
    rows = {row["view_name"]: row for row in await queries.rows("select_consumer_views", definition.name)}
    return [
        view
        for view in (definition.views if named is None else named)
        if (row := rows.get(view.name)) is not None and waits_to_be_built(view, row)
    ]


def with_looked_up(
    definition: ConsumerDefinition, named: Sequence[Definition] | None
) -> Sequence[Definition] | None:
    """Return these views and those that they look up: what an event has found in them, only their build tells. Pure."""
    if named is None:
        return None
    needed = {one for view in named for one in (*view.support, view)}
    return [view for view in definition.views if view in needed]


def waits_to_be_built(view: Definition, row: Row) -> bool:
    """Return whether no batch can write a view as this code has it before a build has made it. Pure."""
    return bool(row["state"] == "joining" or (row["state"] == "live" and view.revision > row["revision"]))


def _is_left(view: Definition, row: Row) -> bool:
    """Return whether a build of the whole set leaves this view as it is."""
    return bool(row["state"] == "detached" or (view.kind is Kind.REACTOR and row["state"] == "live"))


def _check(definition: Definition, row: Row, *, going_back: bool) -> None:
    name, joins = definition.full_name, row["state"] == "joining"
    if definition.kind is Kind.REACTOR and not joins:
        raise RebuildError(f"{name} is a Reactor: it has no rows, so there is nothing to rebuild")
    if differs := disagreement(definition, row):
        raise RebuildError(
            f"{name} {differs}",
            remedy='Positions and inbox would mean something else: give it a name of its own, name="…"',
        )
    if definition.revision < row["revision"] and not going_back and not joins:
        raise RebuildError(
            f"{name} runs revision {row['revision']}, this code is revision {definition.revision}",
            remedy="Deploy the newer code, or go back with `projectionist generations rollback`",
        )


def _unknown(definition: ConsumerDefinition) -> RebuildError:
    name = definition.full_name if isinstance(definition, Definition) else definition.name
    what = "view" if "." in name else "consumer"
    return RebuildError(f"{what} {name!r} is not in the database yet", remedy="Run `projectionist migrate`")


async def floor_of(client: Client, stream: str, durable: str) -> int:
    """Return up to where the consumer of this durable has settled everything; nothing, where it has none yet."""
    try:
        found = await api.consumer(client, stream, durable)
    except api.ConsumerMissing:
        return 0
    return found.ack_floor.stream_seq
