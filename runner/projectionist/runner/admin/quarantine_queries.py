"""Shows operators quarantine, over all consumers, and acts on many entries of it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.operator import NotThere
from projectionist.core.postgres.statements import Statements
from projectionist.runner.admin.bulk_actions import named, paced
from projectionist.runner.admin.parked_queries import MOST
from projectionist.runner.admin.quarantine_actions import QuarantineActions
from projectionist.runner.batch.batch_session import store_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.admin.bulk_actions import BulkResult
    from projectionist.runner.admin.quarantine_actions import Place


class QuarantineFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of entries; what is None does not matter."""

    consumer: str | None = None
    cause: str | None = None
    error: str | None = None
    """Its text, whole or without numbers and quoted values, or the digest of the latter."""
    older_s: float | None = None


class QuarantineGroup(msgspec.Struct, frozen=True):
    """Entries that are alike; `sample` is the stream sequence of the first."""

    consumers: list[str]
    cause: str
    why: str
    """What was found, without numbers and quoted values; it may hold content."""
    own: str | None
    """The same as a whole, if it is the same of all."""
    count: int
    """Of events: one that several consumers have put there counts once."""
    oldest: datetime
    sample: int


class QuarantineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry: what one stream sequence has brought into quarantine."""

    consumer: int
    name: str
    """Of the consumer."""
    incarnation: int
    seq: int
    cause: str
    why: str
    own: str
    subject: str
    source: str | None
    id: str | None
    aggregate: str | None
    version: int | None
    attempts: int
    due: datetime | None
    size: int
    received: datetime

    @property
    def place(self) -> Place:
        """Return where it stands in the stream."""
        return self.incarnation, self.seq


class QuarantineQueries:
    """Quarantine over one connection that is in no transaction."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)

    async def groups(self, chosen: QuarantineFilter) -> list[QuarantineGroup]:
        """Return entries by consumer, cause and detail, the largest group first."""
        given = msgspec.structs.astuple(chosen)
        rows = await self._connection.fetch(self._sql["select_quarantine_groups"], *given)
        return [msgspec.convert(dict(row), QuarantineGroup) for row in rows]

    async def each(
        self, chosen: QuarantineFilter, limit: int = MOST, *, idle: bool = False
    ) -> list[QuarantineEntry]:
        """Return entries one by one, the oldest first; `idle`: only what is not asked to be read again already."""
        given = (*msgspec.structs.astuple(chosen), idle, limit)
        rows = await self._connection.fetch(self._sql["select_quarantine"], *given)
        return [msgspec.convert(dict(row), QuarantineEntry) for row in rows]

    async def count(
        self, chosen: QuarantineFilter, *, idle: bool, most: int
    ) -> tuple[int, tuple[int, Place]] | None:
        """Count the chosen, so many at most, and say where the oldest is (consumer's number and place); None: none."""
        given = (*msgspec.structs.astuple(chosen), idle, most)
        row = await self._connection.fetchrow(self._sql["count_quarantine"], *given)
        return None if row is None else (row["entries"], (row["consumer"], (row["incarnation"], row["seq"])))

    async def show(self, seq: int, consumer: str | None, incarnation: int | None) -> list[dict[str, Any]]:
        """Return all that is known of what a stream sequence has brought; of several consumers, one each."""
        rows = await self._connection.fetch(
            self._sql["select_quarantine_details"], seq, consumer, incarnation
        )
        if not rows:
            raise NotThere(
                f"nothing of sequence {seq} was put into quarantine",
                remedy="`projectionist quarantine list --each` shows sequences",
            )
        found = []
        for row in rows:
            place = (row["consumer"], row["incarnation"], row["seq"])
            decided = await self._connection.fetch(self._sql["select_quarantine_decisions"], *place)
            found.append(dict(row) | {"decisions": [dict(one) for one in decided]})
        return found

    async def act(
        self,
        chosen: Sequence[tuple[int, Place]],
        do: Callable[[QuarantineActions, Place], Awaitable[None]],
        *,
        rate: float,
    ) -> BulkResult:
        """Do one thing to these entries (consumer's number and place), at most so many a second."""

        def verbs(consumer: int) -> QuarantineActions:
            return QuarantineActions(store_of(self._connection, self._schema, consumer))

        name = named(
            chosen,
            lambda one: str(one[1][1]),
            lambda one: f"{one[1][1]} of incarnation {one[1][0]} (consumer {one[0]})",
        )
        return await paced(chosen, lambda one: do(verbs(one[0]), one[1]), name=name, rate=rate)
