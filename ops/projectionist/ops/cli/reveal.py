"""Puts on record that somebody is shown content, for commands that change nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.core.errors import ProjectionistError
from projectionist.ops.cli.database import database
from projectionist.runner.admin import reveal
from projectionist.runner.admin.parked_queries import ParkedQueries
from projectionist.runner.consumers.registry import NotRegistered

if TYPE_CHECKING:
    from projectionist.core.operator import Act
    from projectionist.core.settings.settings import Settings


async def record_reveal(
    settings: Settings, command: str, consumers: Iterable[str], thing: str, act: Act
) -> None:
    """Record it for each of these consumers, or for none of them; over a connection of its own, before anything is
    shown."""
    async with database(command, settings) as db, db.connection.transaction():
        queries = ParkedQueries(db.connection, db.schema)
        names = list(consumers)
        for name in names:
            try:
                await queries.consumer(name)
            except NotRegistered:
                raise ProjectionistError(
                    f"what is revealed is recorded with its consumer, and {name!r} is not in the database",
                    remedy="Run `projectionist migrate` first, or look without --reveal",
                ) from None
        await reveal.record_reveal(db.connection, db.schema, (f"{name}: {thing}" for name in names), act)
