"""The statements of the batch transaction, a method a file in `sql`. No policy here: the caller says what to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from projectionist.core.sql import Statements

if TYPE_CHECKING:
    from collections import Counter

    from asyncpg import Record

    from projectionist.core.db import Connection
    from projectionist.runner.delivery import Delivery
    from projectionist.runner.references import Fetched
    from projectionist.runner.writes import Failed, Identity, Moved, Parked, Put, Told, Wish

_CLAIMED = attrgetter(
    *("source", "id", "provisional", "seq", "subject", "type", "schema", "aggregate", "version"),
    *("correlation", "causation", "traceparent", "tracestate", "hash", "received_us"),
)
_PARKED = attrgetter(
    *(
        "delivery.source",
        "delivery.id",
        "cause",
        "delivery.aggregate",
        "delivery.version",
        "ordered",
        "delivery.seq",
    ),
    *("delivery.subject", "delivery.type", "delivery.schema", "delivery.time", "delivery.correlation"),
    *("delivery.causation", "delivery.traceparent", "delivery.tracestate", "delivery.hash", "kept"),
    *("problem", "failed.attempts", "failed.budget", "delay"),
    *("failed.error_class", "failed.error", "failed.stack"),
)
_MOVED = attrgetter("aggregate", "version", "head", "parked", "delay", "due", "seq")
_REPEATED = attrgetter("seq", "source", "id")
_PUT = attrgetter(
    *(
        "seq",
        "reason",
        "detail",
        "subject",
        "source",
        "id",
        "aggregate",
        "version",
        "headers",
        "data",
        "size",
        "hash",
    ),
)
_TOLD = attrgetter("kind", "seq", "source", "id", "aggregate", "version", "detail")
_WISH = attrgetter(
    *(
        "key",
        "source",
        "id",
        "aggregate",
        "version",
        "slot",
        "class_name",
        "provider",
        "destination",
        "ordering",
    ),
    *("on_dead", "body", "hash", "traceparent", "tracestate"),
)


class Store:
    """One consumer's journal on one connection; every method is one round trip inside the caller's transaction."""

    def __init__(self, connection: Connection, schema: str, consumer: int, barrier: int) -> None:
        self.connection = connection
        self.consumer = consumer
        self._barrier = barrier
        self._sql = Statements("projectionist.runner", schema)

    async def run(self, statement: str, *arguments: object) -> None:
        """Run one of the statements of the verbs, about one event or aggregate of this consumer."""
        await self.connection.execute(self._sql[statement], self.consumer, *arguments)

    async def row(self, statement: str, *arguments: object) -> Record | None:
        """The one row such a statement finds, if any."""
        return await self.connection.fetchrow(self._sql[statement], self.consumer, *arguments)

    async def enter(self) -> None:
        """Wait behind exclusive takers of this consumer."""
        await self.connection.execute(self._sql["barrier"], self._barrier)

    async def enter_alone(self) -> None:
        """Wait until no batch of this consumer is open, and keep new ones waiting until the transaction ends."""
        await self.connection.execute(self._sql["barrier_alone"], self._barrier)

    async def control(self) -> Record | None:
        """The consumer's control row as it stands now."""
        return await self.connection.fetchrow(self._sql["control"], self.consumer)

    async def claim(
        self, batch: int, incarnation: int, fresh: Sequence[Delivery], data: Sequence[bytes | None]
    ) -> int:
        """Insert the identities, given in order; how many of them were new."""
        tag = await self.connection.execute(
            self._sql["claim"], self.consumer, batch, incarnation, *_columns(fresh, _CLAIMED), data
        )
        return _counted(tag)

    async def known(self, identities: Iterable[Identity]) -> dict[Identity, Record]:
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

    async def successors(self, heads: Sequence[tuple[str, int, int]], most_bytes: int) -> list[Record]:
        """The first parked entries behind each (aggregate, version), as many as its third number says."""
        return await self.connection.fetch(
            self._sql["successors"], self.consumer, *zip(*heads, strict=True), most_bytes
        )

    async def references(self, aggregates: Sequence[str], most: int) -> list[Record]:
        """What due heads among these aggregates come to next and is only a reference; nearest first."""
        return await self.connection.fetch(self._sql["references"], self.consumer, aggregates, most)

    async def fill(self, fetched: Iterable[Fetched]) -> None:
        """Give references their bytes, or say why there are none; the caller holds their positions."""
        await self.connection.executemany(self._sql["fill"], [(self.consumer, *one) for one in fetched])

    async def entries(self, identities: Sequence[Identity]) -> list[Record]:
        """Lock and read parked entries without order."""
        asked = set(identities)
        sources, ids = zip(*identities, strict=True)
        rows = await self.connection.fetch(self._sql["entries"], self.consumer, sources, ids)
        return [row for row in rows if (row["source"], row["id"]) in asked]

    async def versions(self, asked: Iterable[tuple[str, int]]) -> list[Record]:
        """Every inbox row that holds one of these (aggregate, version)."""
        wanted = set(asked)
        aggregates, versions = zip(*wanted, strict=True)
        rows = await self.connection.fetch(self._sql["versions"], self.consumer, aggregates, versions)
        return [row for row in rows if (row["aggregate"], row["version"]) in wanted]

    async def stepped_over(self, aggregates: Sequence[str]) -> list[Record]:
        """Ranges of versions that decisions stepped over."""
        return await self.connection.fetch(self._sql["stepped_over"], self.consumer, aggregates)

    async def park(self, incarnation: int, parked: Sequence[Parked], code: bytes) -> set[Identity]:
        """Park events; the identities that found their version free. `code` is the fingerprint that failed on them."""
        columns = _columns(parked, _PARKED)
        rows = await self.connection.fetch(self._sql["park"], self.consumer, incarnation, *columns, code)
        return {(row["source"], row["id"]) for row in rows}

    async def holders(self, asked: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Identity]:
        """The identities of the parked events that hold these versions."""
        aggregates, versions = zip(*asked, strict=True)
        rows = await self.connection.fetch(self._sql["holders"], self.consumer, aggregates, versions)
        return {(row["aggregate"], row["version"]): (row["source"], row["id"]) for row in rows}

    async def fail_again(self, delivery: Delivery, failed: Failed, code: bytes) -> None:
        """Record one more failed try of a parked event."""
        await self.connection.execute(
            *(self._sql["failed_again"], self.consumer, delivery.source, delivery.id),
            *(
                failed.attempts,
                failed.budget,
                failed.delay,
                failed.error_class,
                failed.error,
                failed.stack,
                code,
            ),
        )

    async def unpark(self, deliveries: Iterable[Delivery]) -> None:
        """Remove settled events from the parked ones."""
        for source, ids in _by_source(deliveries).items():
            await self.connection.execute(self._sql["unpark"], self.consumer, source, ids)

    async def advance(self, moved: Sequence[Moved]) -> None:
        """Write where these aggregates stand; the caller holds their positions."""
        await self.connection.execute(self._sql["advance"], self.consumer, *_columns(moved, _MOVED))

    async def settle(
        self, deliveries: Iterable[Delivery], state: str, verdict: str | None, batch: int
    ) -> None:
        """Give inbox rows their state."""
        for source, ids in _by_source(deliveries).items():
            await self.connection.execute(
                self._sql["settle"], self.consumer, source, ids, state, verdict, batch
            )

    async def repeat(self, incarnation: int, deliveries: Sequence[Delivery]) -> None:
        """Record known identities that came under another stream sequence."""
        ordered = sorted(deliveries, key=lambda d: d.seq)
        await self.connection.execute(
            self._sql["repeat"], self.consumer, incarnation, *_columns(ordered, _REPEATED)
        )

    async def quarantine(self, incarnation: int, put: Sequence[Put]) -> None:
        """Put aside what cannot be read or contradicts itself."""
        ordered = sorted(put, key=lambda p: p.seq)
        await self.connection.execute(
            self._sql["quarantine"], self.consumer, incarnation, *_columns(ordered, _PUT)
        )

    async def report(self, incarnation: int, told: Sequence[Told]) -> None:
        """Open incidents."""
        ordered = sorted(told, key=lambda t: (t.kind, t.seq))
        await self.connection.execute(
            self._sql["report"], self.consumer, incarnation, *_columns(ordered, _TOLD)
        )

    async def choose(self, winners: Sequence[tuple[str, int, str, str]]) -> None:
        """Record which identity a version belongs to, where two claimed it."""
        await self.connection.execute(self._sql["choose"], self.consumer, *zip(*sorted(winners), strict=True))

    async def intents(self, wishes: Sequence[Wish]) -> int:
        """Write intents; how many keys were new."""
        return _counted(
            await self.connection.execute(self._sql["intents"], self.consumer, *_columns(wishes, _WISH))
        )

    async def intents_known(self, keys: Sequence[str]) -> dict[str, Record]:
        """What is stored under these intent keys."""
        return {row["key"]: row for row in await self.connection.fetch(self._sql["intents_known"], keys)}

    async def due(self, most: int) -> list[str]:
        """Aggregates whose head is due."""
        return [
            row["aggregate"] for row in await self.connection.fetch(self._sql["due"], self.consumer, most)
        ]

    async def due_entries(self, most: int) -> list[Identity]:
        """Parked events without order that are due."""
        rows = await self.connection.fetch(self._sql["due_entries"], self.consumer, most)
        return [(row["source"], row["id"]) for row in rows]

    async def count(self, runner: int, counts: Counter[tuple[str, str]]) -> None:
        """Add to this runner's counters, by (event type, outcome)."""
        keys = sorted(counts)
        types, outcomes = zip(*keys, strict=True)
        await self.connection.execute(
            self._sql["count"], self.consumer, runner, types, outcomes, [counts[key] for key in keys]
        )


def _columns(rows: Sequence[object], get: Callable[[Any], tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    return zip(*map(get, rows), strict=True)


def _by_source(deliveries: Iterable[Delivery]) -> dict[str, list[str]]:
    sources: dict[str, list[str]] = {}
    for delivery in deliveries:
        sources.setdefault(delivery.source, []).append(delivery.id)
    return {source: sorted(ids) for source, ids in sorted(sources.items())}


def _counted(tag: str) -> int:
    return int(tag.rpartition(" ")[2])
