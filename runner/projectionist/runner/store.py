"""The statements of the batch transaction, a method a file in `sql`. No policy here: the caller says what to write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from projectionist.core.sql import Statements

if TYPE_CHECKING:
    from asyncpg import Connection, Record

    from projectionist.runner.delivery import Delivery, Unreadable
    from projectionist.runner.writes import Failed, Fact, Moved, Wish

Column = list[Any]

NO_FAILURE = (None, None, None, None)


class Store:
    """One consumer's journal on one connection; every method is one round trip inside the caller's transaction."""

    def __init__(self, connection: Connection[Any], schema: str, consumer: int, barrier: int) -> None:
        self.connection = connection
        self.consumer = consumer
        self._barrier = barrier
        self._sql = Statements("projectionist.runner", schema)

    async def enter(self) -> None:
        """Wait behind exclusive takers of this consumer."""
        await self.connection.execute(self._sql["barrier"], self._barrier)

    async def enter_alone(self) -> None:
        """Wait until no batch of this consumer is open, and keep new ones waiting until the transaction ends."""
        await self.connection.execute(self._sql["barrier_alone"], self._barrier)

    async def control(self) -> Record:
        """The consumer's control row as it stands now."""
        row = await self.connection.fetchrow(self._sql["control"], self.consumer)
        assert row is not None, "a registered consumer's control row is never deleted"
        return row

    async def claim(self, batch: int, incarnation: int, fresh: Sequence[Delivery], *, keep_data: bool) -> int:
        """Insert the identities, which are sorted; how many of them were new."""
        tag = await self.connection.execute(
            self._sql["claim"],
            self.consumer,
            batch,
            incarnation,
            [d.source for d in fresh],
            [d.id for d in fresh],
            ["ignored" if d.event is None and d.problem is None else "applied" for d in fresh],
            [d.seq for d in fresh],
            [d.subject for d in fresh],
            [d.type for d in fresh],
            [d.schema for d in fresh],
            [d.aggregate for d in fresh],
            [d.version for d in fresh],
            [d.correlation for d in fresh],
            [d.causation for d in fresh],
            [d.traceparent for d in fresh],
            [d.tracestate for d in fresh],
            [d.hash for d in fresh],
            [d.received_us for d in fresh],
            [d.data for d in fresh] if keep_data else [None] * len(fresh),
        )
        return _counted(tag)

    async def known(self, identities: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Record]:
        """The inbox rows of these identities."""
        asked = set(identities)
        rows = await self.connection.fetch(
            self._sql["known"], self.consumer, sorted({s for s, _ in asked}), sorted({i for _, i in asked})
        )
        return {key: row for row in rows if (key := (row["source"], row["id"])) in asked}

    async def place(self, aggregates: Sequence[str]) -> None:
        """Make sure that each of these sorted aggregates has a position to lock."""
        await self.connection.execute(self._sql["place"], self.consumer, aggregates)

    async def positions(self, aggregates: Sequence[str]) -> list[Record]:
        """Lock and read the positions of these aggregates."""
        return await self.connection.fetch(self._sql["positions"], self.consumer, aggregates)

    async def successors(self, heads: Sequence[tuple[str, int]], limit: int) -> list[Record]:
        """The first parked entries behind each (aggregate, version)."""
        return await self.connection.fetch(
            self._sql["successors"], self.consumer, [a for a, _ in heads], [v for _, v in heads], limit
        )

    async def entries(self, identities: Sequence[tuple[str, str]]) -> list[Record]:
        """Lock and read parked entries without order."""
        asked = set(identities)
        rows = await self.connection.fetch(
            self._sql["entries"], self.consumer, [s for s, _ in identities], [i for _, i in identities]
        )
        return [row for row in rows if (row["source"], row["id"]) in asked]

    async def versions(self, asked: Iterable[tuple[str, int]]) -> list[Record]:
        """Every inbox row that holds one of these (aggregate, version)."""
        wanted = set(asked)
        rows = await self.connection.fetch(
            self._sql["versions"],
            self.consumer,
            sorted({a for a, _ in wanted}),
            sorted({v for _, v in wanted}),
        )
        return [row for row in rows if (row["aggregate"], row["version"]) in wanted]

    async def stepped_over(self, aggregates: Sequence[str]) -> list[Record]:
        """Ranges of versions that decisions stepped over."""
        return await self.connection.fetch(self._sql["stepped_over"], self.consumer, aggregates)

    async def park(
        self, incarnation: int, parked: Sequence[tuple[Delivery, str, bool, Failed | None]]
    ) -> set[tuple[str, str]]:
        """Park deliveries with their cause; the identities that found their version free."""
        deliveries = [d for d, _, _, _ in parked]
        failures = [f for _, _, _, f in parked]
        rows = await self.connection.fetch(
            self._sql["park"],
            self.consumer,
            incarnation,
            [d.source for d in deliveries],
            [d.id for d in deliveries],
            [cause for _, cause, _, _ in parked],
            [d.aggregate for d in deliveries],
            [d.version for d in deliveries],
            [ordered for _, _, ordered, _ in parked],
            [d.seq for d in deliveries],
            [d.subject for d in deliveries],
            [d.type for d in deliveries],
            [d.schema for d in deliveries],
            [d.time for d in deliveries],
            [d.correlation for d in deliveries],
            [d.causation for d in deliveries],
            [d.traceparent for d in deliveries],
            [d.tracestate for d in deliveries],
            [d.hash for d in deliveries],
            [d.data for d in deliveries],
            [d.problem for d in deliveries],
            [f.attempts if f else 0 for f in failures],
            [f.budget if f else None for f in failures],
            [f.delay if f and not ordered else None for _, _, ordered, f in parked],
            [f.error_class if f else None for f in failures],
            [f.error if f else None for f in failures],
            [f.stack if f else None for f in failures],
        )
        return {(row["source"], row["id"]) for row in rows}
