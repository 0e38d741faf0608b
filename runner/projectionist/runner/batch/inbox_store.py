"""The statements of the batch transaction, a method a file in `sql`. No policy here: the caller says what to write."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.postgres.statements import Statements
from projectionist.outbox.intents.staging import encode_intents, intent_chunks
from projectionist.runner.batch.column_encoding import (
    INCIDENTS,
    PARKED,
    QUARANTINED,
    REPEATED,
    claimed,
    columns,
)
from projectionist.runner.batch.column_encoding import moved as position_columns

if TYPE_CHECKING:
    from collections import Counter
    from datetime import datetime

    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.states import AggregateState
    from projectionist.outbox.intents.staging import StagedIntent
    from projectionist.runner.batch.writes import (
        EventFailure,
        Identity,
        Incident,
        ParkedEvent,
        PositionUpdate,
        Quarantined,
        StillQuarantined,
    )
    from projectionist.runner.decoding.delivery import Delivery


_USUAL = (
    *(
        "lock_consumer_shared",
        "select_control_row_settling",
        "insert_inbox_claims",
        "insert_missing_positions",
    ),
    *("lock_positions", "upsert_positions", "add_outcome_counts"),
)


class InboxStore:
    """One consumer's journal on one connection; every method is one round trip inside the caller's transaction."""

    def __init__(self, connection: Connection, schema: str, consumer: int, barrier: int) -> None:
        self.connection = connection
        self.consumer = consumer
        self._barrier = barrier
        self._sql = Statements("projectionist.runner", schema)

    def usual(self, *, intents: bool) -> list[str]:
        """Return the statements of a batch in which every event is applied; `intents`: and some are asked for."""
        return [self._sql[name] for name in (*_USUAL, *(["insert_intent_batches"] if intents else ()))]

    async def run(self, statement: str, *arguments: object) -> None:
        """Run one of the statements of the verbs, about one event or aggregate of this consumer."""
        await self.connection.execute(self._sql[statement], self.consumer, *arguments)

    async def row(self, statement: str, *arguments: object) -> Record | None:
        """Return the one row such a statement finds, if any."""
        return await self.connection.fetchrow(self._sql[statement], self.consumer, *arguments)

    async def rows(self, statement: str, *arguments: object) -> list[Record]:
        """Return all rows such a statement finds."""
        return await self.connection.fetch(self._sql[statement], self.consumer, *arguments)

    async def enter(self) -> None:
        """Wait behind exclusive takers of this consumer."""
        await self.connection.execute(self._sql["lock_consumer_shared"], self._barrier)

    async def control(self) -> list[Record]:
        """Return the consumer's control row as it stands now, once for each view that batches write."""
        return await self.connection.fetch(self._sql["select_control_row"], self.consumer)

    async def control_settling(self, seqs: Collection[int]) -> list[Record]:
        """Return the same, and put on record that these messages of the stream are being settled."""
        lowest, highest = min(seqs), max(seqs)
        each = None if highest - lowest + 1 == len(seqs) else list(seqs)
        given = (self.consumer, lowest, highest, each)
        return await self.connection.fetch(self._sql["select_control_row_settling"], *given)

    async def claim(
        self, batch: int, incarnation: int, fresh: Sequence[Delivery], data: Sequence[bytes | None]
    ) -> int:
        """Insert the identities, given in order; how many of them were new."""
        given = claimed(fresh, data)
        tag = await self.connection.execute(
            self._sql["insert_inbox_claims"], self.consumer, batch, incarnation, *given
        )
        return _counted(tag)

    async def known(self, identities: Iterable[Identity]) -> dict[Identity, Record]:
        """Return the inbox rows of these identities."""
        return {
            (row["source"], row["id"]): row
            for row in await self._paired("select_inbox_by_identity", identities)
        }

    async def place(self, aggregates: Sequence[str], version: int) -> None:
        """Make sure that each of these sorted aggregates has a position to lock; a new one stands at `version`."""
        await self.connection.execute(
            self._sql["insert_missing_positions"], self.consumer, aggregates, version
        )

    async def beginnings(self, aggregates: Sequence[str]) -> dict[str, int]:
        """Return which of these aggregates wait for a first version, and the lowest parked version of each."""
        rows = await self.connection.fetch(
            self._sql["select_aggregates_without_baseline"], self.consumer, aggregates
        )
        return {row["aggregate"]: row["lowest"] for row in rows}

    async def postpone(self, aggregates: Sequence[str], seconds: float) -> None:
        """Make these due later; the caller holds the positions."""
        await self.connection.execute(self._sql["postpone_heads"], self.consumer, aggregates, seconds)

    async def begin(self, aggregates: Sequence[str], versions: Sequence[int]) -> None:
        """Step over the versions up to these, once and for all; the caller holds the positions."""
        await self.connection.execute(self._sql["set_baselines"], self.consumer, aggregates, versions)

    async def positions(self, aggregates: Sequence[str]) -> list[Record]:
        """Lock and read the positions of these aggregates."""
        return await self.connection.fetch(self._sql["lock_positions"], self.consumer, aggregates)

    async def owned(self, aggregates: Iterable[str], runner: int) -> set[str]:
        """Return those of the aggregates, whose positions are locked, that this runner has claimed, still."""
        rows = await self.rows("select_owned_aggregates", sorted(aggregates), runner)
        return {row["aggregate"] for row in rows}

    async def successors(self, heads: Sequence[tuple[str, int, int]], most_bytes: int) -> list[Record]:
        """Return the first parked entries behind each (aggregate, version), as many as its third number says."""
        return await self.connection.fetch(
            self._sql["select_parked_successors"], self.consumer, *zip(*heads, strict=True), most_bytes
        )

    async def references(self, aggregates: Sequence[str], most: int) -> list[Record]:
        """Return what due heads among these aggregates come to next and is only a reference; nearest first."""
        return await self.connection.fetch(
            self._sql["select_payload_references"], self.consumer, aggregates, most
        )

    async def fill(self, fetched: Iterable[Fetched]) -> None:
        """Give references their bytes, or say why there are none; the caller holds their positions."""
        await self.connection.executemany(
            self._sql["set_parked_payload"], [(self.consumer, *one) for one in fetched]
        )

    async def entries(self, identities: Sequence[Identity]) -> list[Record]:
        """Lock and read parked entries without order."""
        asked = set(identities)
        sources, ids = zip(*identities, strict=True)
        rows = await self.connection.fetch(
            self._sql["lock_due_unordered_events"], self.consumer, sources, ids
        )
        return [row for row in rows if (row["source"], row["id"]) in asked]

    async def versions(self, asked: Iterable[tuple[str, int]]) -> list[Record]:
        """Return every inbox row that holds one of these (aggregate, version)."""
        return await self._paired("select_inbox_by_version", asked)

    async def stepped_over(self, aggregates: Sequence[str]) -> list[Record]:
        """Return ranges of versions that decisions stepped over."""
        return await self.connection.fetch(self._sql["select_skipped_ranges"], self.consumer, aggregates)

    async def park(self, incarnation: int, parked: Sequence[ParkedEvent], code: bytes) -> set[Identity]:
        """Park events; the identities that found their version free. `code` is the fingerprint that failed on them."""
        given = columns(parked, PARKED)
        rows = await self.connection.fetch(
            self._sql["insert_parked_events"], self.consumer, incarnation, *given, code
        )
        return {(row["source"], row["id"]) for row in rows}

    async def holders(self, asked: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Identity]:
        """Return the identities of the parked events that hold these versions."""
        rows = await self._paired("select_parked_by_version", asked)
        return {(row["aggregate"], row["version"]): (row["source"], row["id"]) for row in rows}

    async def fail_again(self, delivery: Delivery, failed: EventFailure, code: bytes) -> None:
        """Record one more failed try of a parked event."""
        await self.connection.execute(
            self._sql["record_failed_attempt"],
            self.consumer,
            delivery.source,
            delivery.id,
            failed.attempts,
            failed.budget,
            failed.delay,
            failed.error_class,
            failed.error,
            failed.stack,
            code,
            failed.view,
        )

    async def unpark(self, deliveries: Iterable[Delivery]) -> None:
        """Remove settled events from the parked ones."""
        for source, ids in _by_source(deliveries).items():
            await self.connection.execute(self._sql["delete_parked_events"], self.consumer, source, ids)

    async def advance(self, moved: Sequence[PositionUpdate]) -> None:
        """Write where these aggregates stand; the caller holds their positions."""
        given = position_columns(moved)
        await self.connection.execute(self._sql["upsert_positions"], self.consumer, *given)

    async def hold(self, changes: Mapping[AggregateState, tuple[int, int]]) -> None:
        """Count, by the state of their heads, how many aggregates more are held, and events parked for them."""
        heads = sorted(changes)
        aggregates, events = zip(*(changes[head] for head in heads), strict=True)
        await self.run("insert_held_changes", heads, aggregates, events)

    async def settle(
        self, deliveries: Iterable[Delivery], state: str, verdict: str | None, batch: int
    ) -> None:
        """Give inbox rows their state."""
        for source, ids in _by_source(deliveries).items():
            await self.connection.execute(
                self._sql["update_inbox_state"], self.consumer, source, ids, state, verdict, batch
            )

    async def idle(self, deliveries: Iterable[Delivery]) -> None:
        """Mark what was applied without effect, because a condition (`when=`) did not hold."""
        for source, ids in _by_source(deliveries).items():
            await self.connection.execute(self._sql["mark_events_without_effect"], self.consumer, source, ids)

    async def repeat(self, incarnation: int, deliveries: Sequence[Delivery]) -> list[int]:
        """Record known identities that came under another stream sequence; which sequences are new."""
        ordered = sorted(deliveries, key=lambda d: d.seq)
        given = columns(ordered, REPEATED)
        rows = await self.connection.fetch(self._sql["insert_duplicates"], self.consumer, incarnation, *given)
        return [row["seq"] for row in rows]

    async def quarantine(
        self, incarnation: int, code: bytes, put: Sequence[Quarantined], most: int
    ) -> list[int]:
        """Put aside what cannot be read or contradicts itself; which sequences are new. `code` judged so. Where `most`
        entries stand already, the bytes of further ones stay in the stream alone."""
        ordered = sorted(put, key=lambda p: p.seq)
        given = columns(ordered, QUARANTINED)
        rows = await self.connection.fetch(
            self._sql["insert_quarantined"], self.consumer, incarnation, code, *given, most
        )
        return [row["seq"] for row in rows]

    async def quarantine_due(self, most: int, most_bytes: int) -> list[Record]:
        """Return what is to be read again, and the headers and data to read."""
        return await self.connection.fetch(
            self._sql["select_quarantine_to_reread"], self.consumer, most, most_bytes
        )

    async def quarantine_asked(self, incarnation: int, seqs: Sequence[int]) -> dict[int, datetime]:
        """Lock those of these entries that are to come out, still; when that was asked for."""
        rows = await self.connection.fetch(
            self._sql["lock_released_quarantine"], self.consumer, incarnation, seqs
        )
        return {row["seq"]: row["due"] for row in rows}

    async def quarantine_release(self, incarnation: int, seqs: Sequence[int]) -> None:
        """Close the entries of those that have become events."""
        await self.connection.execute(self._sql["mark_quarantine_released"], self.consumer, incarnation, seqs)

    async def quarantine_keep(self, incarnation: int, code: bytes, kept: Iterable[StillQuarantined]) -> None:
        """Keep those that were read again in vain, unless an operator has acted on them in the meantime."""
        await self.connection.executemany(
            self._sql["record_failed_reread"],
            [(self.consumer, incarnation, code, *msgspec.structs.astuple(one)) for one in kept],
        )

    async def report(self, incarnation: int, incidents: Sequence[Incident]) -> dict[str, list[int]]:
        """Open incidents; the sequences of new ones, by kind."""
        ordered = sorted(incidents, key=lambda t: (t.kind, t.seq))
        given = columns(ordered, INCIDENTS)
        new: dict[str, list[int]] = {}
        for row in await self.connection.fetch(
            self._sql["insert_incidents"], self.consumer, incarnation, *given
        ):
            new.setdefault(row["kind"], []).append(row["seq"])
        return new

    async def choose(self, winners: Sequence[tuple[str, int, str, str]]) -> None:
        """Record which identity a version belongs to, where two claimed it."""
        await self.connection.execute(
            self._sql["insert_version_winners"], self.consumer, *zip(*sorted(winners), strict=True)
        )

    async def stage(self, incarnation: int, intents: Sequence[StagedIntent]) -> None:
        """Write the intents of a batch, for a relay to unpack."""
        rows = [(len(part), encode_intents(part)) for part in intent_chunks(intents)]
        await self.connection.execute(
            self._sql["insert_intent_batches"], self.consumer, incarnation, *zip(*rows, strict=True)
        )

    async def mark(self, slot: int, marks: Sequence[str]) -> None:
        """Leave sorted marks for the open build."""
        await self.connection.execute(self._sql["insert_dirty_marks"], self.consumer, slot, marks)

    async def due(self, most: int) -> list[str]:
        """Return aggregates whose head is due."""
        return [
            row["aggregate"]
            for row in await self.connection.fetch(self._sql["select_due_aggregates"], self.consumer, most)
        ]

    async def due_entries(self, most: int) -> list[Identity]:
        """Return parked events without order that are due."""
        rows = await self.connection.fetch(self._sql["select_due_unordered_events"], self.consumer, most)
        return [(row["source"], row["id"]) for row in rows]

    async def count(self, runner: int, counts: Counter[tuple[str, str]]) -> None:
        """Add to this runner's counters, by (event type, outcome)."""
        keys = sorted(counts)
        types, outcomes = zip(*keys, strict=True)
        await self.connection.execute(
            self._sql["add_outcome_counts"],
            self.consumer,
            runner,
            types,
            outcomes,
            [counts[key] for key in keys],
        )

    async def _paired(self, statement: str, pairs: Iterable[tuple[str, Any]]) -> list[Record]:
        """Return the rows such a statement finds for pairs."""
        asked = sorted(set(pairs))
        if not asked:
            return []
        return await self.connection.fetch(self._sql[statement], self.consumer, *zip(*asked, strict=True))


def _by_source(deliveries: Iterable[Delivery]) -> dict[str, list[str]]:
    sources: dict[str, list[str]] = {}
    for delivery in deliveries:
        sources.setdefault(delivery.source, []).append(delivery.id)
    return {source: sorted(ids) for source, ids in sorted(sources.items())}


def _counted(tag: str) -> int:
    return int(tag.rpartition(" ")[2])


Fetched = tuple[str, str, bytes | None, str | None]
"""Source and id of a parked event, and its bytes or why there are none."""
