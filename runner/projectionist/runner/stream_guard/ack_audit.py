"""Checks that everything acked was settled here: what the broker counts against what batches have put on record.

Only what a batch has committed is acked by us. An ack of another client, which shares the durable or takes messages off
it by hand, makes the broker's floor rise over messages that are not settled, and none of them comes again by itself. So
a floor is believed only as far as batches have settled all that lies below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio
import msgspec

from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce
from projectionist.runner.jetstream.stream_reader import scan, sequence

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.nats.fast_client import Arrival
    from projectionist.projections.compiled.subject_pattern import Subjects
    from projectionist.runner.database.dead_sessions import Lend
    from projectionist.runner.jetstream.api import DurableInfo as Durable

MOST = 100_000
"""How many messages one look lists; the rest is for the next one."""
LISTING_S = 5.0
MOST_BYTES = 8 * 1024 * 1024
"""What may be counted at a time, of 8 bytes a message: more has come together where a floor has stood for long, and is
listed step by step."""


class ProvenFloor(msgspec.Struct, frozen=True):
    """The part of the broker's floor that is borne out."""

    floor: int
    """Everything acked up to here was settled here."""
    acked: int | None
    """The broker's count of deliveries up to there; None where its floor is higher than what could be proven."""
    missing: Sequence[int] = ()
    """Stream sequences, some of them or all, that were acked and never settled here."""


def adds_up(floor: int, upto: int, acked: int | None, delivered: int, settled: int) -> bool:
    """Return whether no message between two floors can be missing, by counts alone. Pure.

    Either every sequence in between is settled, or as many as were delivered: each delivery was of another message.
    Where none was counted before, the counts say nothing: a durable that another client has moved ahead counts from 0
    too.
    """
    return settled == upto - floor or (acked is not None and acked > 0 and settled == delivered - acked)


class AckAudit:
    """The account of one consumer's durable."""

    def __init__(
        self, schema: str, client: Client, durable: tuple[str, str], subjects: Subjects, lend: Lend
    ) -> None:
        """Take the durable to audit: `durable` is its stream and its name."""
        self._client = client
        self._stream, self._durable = durable
        self._subjects = subjects
        self._lend = lend
        self._sql = Statements("projectionist.runner", schema)

    async def prove(self, consumer: int, durable: Durable) -> ProvenFloor:
        """Compare the durable's ack floor, as it was just now, with what batches have settled.

        A count of rows where every delivery was the first of its message, which is nearly always. Else, as after
        redeliveries, the stream is asked which messages there are, without their bodies.
        """
        upto, delivered = durable.ack_floor.stream_seq, durable.ack_floor.consumer_seq
        async with self._lend() as connection:
            row = await connection.fetchrow(
                self._sql["count_settled_above_floor"], consumer, self._durable, upto, MOST_BYTES
            )
        if row is None or upto <= row["floor"]:
            return ProvenFloor(upto, delivered)
        settled = row["settled"]
        if settled is not None and adds_up(row["floor"], upto, row["acked"], delivered, settled):
            return ProvenFloor(upto, delivered)
        announce("account.listed")
        found = await self._listed(consumer, row["floor"], upto)
        return ProvenFloor(upto, delivered) if found is None else found

    async def _listed(self, consumer: int, floor: int, upto: int) -> ProvenFloor | None:
        """Return what the stream holds of ours up to there and is not settled; None if that is nothing."""
        seen, count = floor, 0
        missing: list[int] = []
        with anyio.move_on_after(LISTING_S):
            blocks = scan(
                self._client, self._stream, self._subjects.filter, floor + 1, upto, headers_only=True
            )
            async with aclosing(blocks):
                async for block in blocks:
                    missing += await self._unsettled(consumer, floor, block)
                    seen, count = sequence(block[-1]), count + len(block)
                    if count >= MOST:
                        break
                else:
                    seen = upto
        if seen == upto and not missing:
            return None
        return ProvenFloor(min(seen, missing[0] - 1) if missing else seen, None, missing)

    async def _unsettled(self, consumer: int, floor: int, block: Sequence[Arrival]) -> list[int]:
        """Return those of these messages that are ours and not settled; asked by the block, since floors may stand."""
        ours = [sequence(one) for one in block if self._subjects.reads(one.subject)]
        async with self._lend() as connection:
            rows = await connection.fetch(
                self._sql["select_unsettled_sequences"], consumer, self._durable, ours, floor
            )
        return [row["seq"] for row in rows]
