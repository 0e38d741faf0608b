"""Keeps in PostgreSQL what is remembered of a consumer's stream and durable."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce
from projectionist.runner.database.barrier import barrier_key
from projectionist.runner.stream_guard.verdict import Checkpoint, MessageFingerprint

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row
    from projectionist.runner.stream_guard.verdict import Judgement

MOST_ROWS = 1_000
"""So many small rows say what is settled above a floor, before they are joined."""
RUN = 100
"""A row of fewer messages than that is small."""
AT_ONCE = 10_000
"""So many messages of small rows are joined in one transaction: a fraction of a second."""

Witness = tuple[str, str, int]
"""Source, id and stream sequence of the last event that a process knows to be settled."""


class Remembered(msgspec.Struct, frozen=True):
    """The remembered state of one durable, as of one reading."""

    number: int
    epoch: int
    incarnation: int
    timeline: int | None
    timeline_then: int | None
    peers: int
    """Other processes that run the consumer now."""
    witnessed: bool
    """Whether the last event that the asking process knows to be settled is settled here."""
    known: Checkpoint | None
    """None before the first time."""
    at: datetime
    """The database's time, asked before whatever the broker is asked next."""

    def is_behind(self, left: Remembered | None) -> bool:
        """Return whether the floor is lower than it was left, in the same incarnation of the stream."""
        if left is None or left.known is None or left.incarnation != self.incarnation:
            return False
        return self.known is None or self.known.floor.seq < left.known.floor.seq


class Floors:
    """The floor of one durable of one consumer, over a connection lent by the caller."""

    def __init__(self, schema: str, consumer: str, durable: str, stream: str) -> None:
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)
        self._consumer = consumer
        self._durable = durable
        self._stream = stream

    async def read(
        self, connection: Connection, silence_s: float, runner: int | None, witness: Witness | None
    ) -> Remembered:
        """Return the state as it is now. `runner` is the asking process, if it has joined."""
        row = await connection.fetchrow(
            self._sql["select_checkpoint"],
            self._consumer,
            self._durable,
            silence_s,
            runner,
            *(witness or (None, None, None)),
        )
        assert row is not None, "the registration was found before"
        return Remembered(
            number=row["number"],
            epoch=row["epoch"],
            incarnation=row["incarnation"],
            timeline=row["timeline"],
            timeline_then=row["timeline_then"],
            peers=row["peers"],
            witnessed=row["witnessed"],
            known=None if row["floor"] is None else _known(row),
            at=row["at"],
        )

    async def begin(self, connection: Connection, number: int, fresh: Checkpoint) -> None:
        """Remember the stream that is there the first time, whatever it is. Under the exclusive barrier."""
        await connection.execute(self._sql["insert_first_stream_incarnation"], self._stream, fresh.created)
        incarnation = await self.follow(connection, number, fresh.created)
        await self._write(connection, number, incarnation, fresh)

    async def follow(self, connection: Connection, number: int, created: datetime) -> int:
        """Have the consumer read the incarnation of its stream that was created then; which one it is."""
        return int(
            await connection.fetchval(self._sql["set_consumer_incarnation"], number, self._stream, created)
        )

    async def renew(self, connection: Connection, number: int, incarnation: int, fresh: Checkpoint) -> None:
        """Begin another incarnation of the stream, of which nothing is settled. Under the exclusive barrier."""
        await self._write(connection, number, incarnation, fresh, anew=True)

    async def write(self, connection: Connection, remembered: Remembered, now: Checkpoint) -> None:
        """Remember, in a transaction of its own, unless another process has taken over or has written more.

        What lies at or below the floor was acked, and so committed, before this transaction began.
        """
        async with connection.transaction():
            await connection.execute(
                self._sql["lock_consumer_shared"], barrier_key(self._schema, remembered.number)
            )
            control = await connection.fetchrow(self._sql["select_control_row"], remembered.number)
            if control is None or control["epoch"] != remembered.epoch:
                return
            number, incarnation = remembered.number, remembered.incarnation
            await connection.execute(
                self._sql["raise_highest_sequence"], self._stream, incarnation, now.top.seq
            )
            await self._write(connection, number, incarnation, now, at=remembered.at)
            announce("floor.written")
        await self.join_settled(connection, number)

    async def join_settled(self, connection: Connection, number: int) -> None:
        """Keep what is settled above a floor that stands in few rows; each step as short as a batch.

        It ends where a step found no fewer small rows than the one before; the next floor tries again.
        """
        before = math.inf
        while True:
            async with connection.transaction():
                barrier = barrier_key(self._schema, number)
                await connection.execute(self._sql["lock_consumer_shared"], barrier)
                await connection.execute(self._sql["lock_checkpoint"], number, self._durable)
                given = (number, MOST_ROWS, RUN, AT_ONCE)
                found = await connection.fetchval(self._sql["merge_settled_above_floor"], *given)
            announce("floor.joined")
            if not 0 < found < before:
                return
            before = found

    async def back(self, connection: Connection, number: int, created: datetime | None) -> None:
        """Begin a new epoch after the durable was moved, or dropped: its deliveries are counted anew."""
        await connection.execute(self._sql["increment_epoch"], number)
        await self.accept(connection, number, created)

    async def accept(self, connection: Connection, number: int, created: datetime | None) -> None:
        """Accept this database and this durable from now on."""
        await connection.execute(self._sql["restart_delivery_count"], number, self._durable, created)

    async def pass_over(self, connection: Connection, number: int, seq: int) -> None:
        """Note that the operator was told of all that is gone up to here."""
        await connection.execute(self._sql["acknowledge_purged_range"], number, self._durable, seq)

    async def report(
        self, connection: Connection, remembered: Remembered, judgement: Judgement, seq: int, text: str
    ) -> None:
        """Open the incident, or open it again, unless somebody has decided since."""
        about = remembered.number, judgement.fact, remembered.incarnation, seq, text
        await connection.execute(self._sql["open_or_reopen_incident"], *about, remembered.epoch)

    async def _write(
        self,
        connection: Connection,
        number: int,
        incarnation: int,
        now: Checkpoint,
        *,
        anew: bool = False,
        at: datetime | None = None,
    ) -> None:
        await connection.execute(
            self._sql["upsert_checkpoint"],
            number,
            self._durable,
            incarnation,
            now.floor.seq,
            now.floor.hash,
            now.floor.stored,
            now.top.seq,
            now.top.hash,
            now.top.stored,
            now.seen,
            now.deliveries,
            now.durable_created,
            anew,
            now.acked,
            at,
            now.quiet,
        )
        await connection.execute(self._sql["delete_settled_below_floor"], number, self._durable)


def _known(row: Row) -> Checkpoint:
    return Checkpoint(
        created=row["created"],
        floor=MessageFingerprint(row["floor"], row["floor_hash"], row["floor_stored"]),
        top=MessageFingerprint(row["top"], row["top_hash"], row["top_stored"]),
        seen=row["seen"],
        deliveries=row["deliveries"],
        durable_created=row["durable_created"],
    )
