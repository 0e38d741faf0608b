"""Incidents as operators see and close them, and what to do about a stream that is not the one read so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from projectionist.core.operator import NotThere
from projectionist.core.postgres.statements import Statements
from projectionist.core.states import IncidentKind
from projectionist.runner.stream_guard.remedies import REMEDIES, remedy

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection

MOST = 1_000_000


class Incidents:
    """Incidents of all consumers, over one connection that is in no transaction."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._sql = Statements("projectionist.runner", schema)

    async def groups(self, consumer: str | None, kind: str | None, *, closed: bool) -> list[Record]:
        """Count incidents by kind and consumer, open ones first; without `closed` only those."""
        return await self._connection.fetch(self._sql["select_incident_groups"], consumer, kind, closed)

    async def each(
        self,
        consumer: str | None = None,
        kind: str | None = None,
        *,
        closed: bool,
        numbers: Sequence[int] | None = None,
        limit: int = MOST,
    ) -> list[Record]:
        """Return incidents one by one, in the order in which they were opened."""
        given = (consumer, kind, closed, numbers, limit)
        return await self._connection.fetch(self._sql["select_incidents"], *given)

    async def one(self, number: int) -> Record:
        """Return the incident of this number; NotThere if there is none."""
        rows = await self.each(closed=True, numbers=[number])
        if not rows:
            raise NotThere(f"there is no incident {number}", remedy="`projectionist incidents list --each`")
        return rows[0]

    async def alike(self, numbers: Sequence[int]) -> list[int]:
        """Return those open that are about the same as these, for whichever consumer."""
        return [
            row["number"]
            for row in await self._connection.fetch(self._sql["select_incidents_about_the_same"], numbers)
        ]

    async def close(self, numbers: Sequence[int], act: Act) -> list[int]:
        """Close these, which an operator has dealt with; those that were open.

        Refuses what halts a consumer: that is decided by `adopt`, and would be opened again.
        """
        for row in await self.each(closed=False, numbers=numbers):
            if row["kind"] in REMEDIES:
                raise NotThere(
                    f"incident {row['number']} is about the stream or the database itself",
                    remedy=remedy(IncidentKind(row["kind"]), row["consumer"]),
                )
        given = (list(numbers), act.actor, act.reason)
        return [row["number"] for row in await self._connection.fetch(self._sql["close_incidents"], *given)]
