"""Checks that a class and its registration fit, so that history can be folded by it; and how far live has settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.projections.compiled.definition import Kind
from projectionist.runner.consumers.registry import disagreement
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.jetstream import api

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.database.queries import Queries


async def registered(queries: Queries, definition: Definition, *, going_back: bool = False) -> Record:
    """Return the registration of the consumer; raises RebuildError where a rebuild cannot follow its class."""
    row = await queries.row("select_view", definition.name)
    if row is None:
        raise RebuildError(
            f"consumer {definition.name!r} is not in the database yet", remedy="Run `projectionist migrate`"
        )
    if definition.kind is Kind.REACTOR:
        raise RebuildError(f"{definition.name} is a Reactor: it has no rows, so there is nothing to rebuild")
    if differs := disagreement(definition, row):
        raise RebuildError(
            f"{definition.name} {differs}",
            remedy='Positions and inbox would mean something else: give it a name of its own, name="…"',
        )
    if definition.revision < row["revision"] and not going_back:
        raise RebuildError(
            f"{definition.name} runs revision {row['revision']}, this code is revision {definition.revision}",
            remedy="Deploy the newer code, or go back with `projectionist generations rollback`",
        )
    return row


async def floor_of(client: Client, stream: str, durable: str) -> int:
    """Return up to where the consumer of this durable has settled everything; nothing, where it has none yet."""
    try:
        found = await api.consumer(client, stream, durable)
    except api.ConsumerMissing:
        return 0
    return found.ack_floor.stream_seq
