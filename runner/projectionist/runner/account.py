"""Whether everything that is acked was settled here: what the broker counts against what batches have put on record.

Only what a batch has committed is acked by us. An ack of somebody else, who shares the durable or takes messages off it
by hand, makes the broker's floor rise over messages that nobody has settled, and none of them comes again by itself. So
a floor is believed only as far as batches have settled all that lies below it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio
import msgspec

from projectionist.core.signals import announce
from projectionist.core.sql import Statements
from projectionist.runner.rebuild.scan import scan, sequence

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.client import Client

    from projectionist.core.db import Connection, Row
    from projectionist.core.wire import Arrival
    from projectionist.projections.subjects import Subjects
    from projectionist.runner.jetstream import Consumer as Durable
    from projectionist.runner.peers import Lend

MOST = 100_000
"""How many messages one look lists; the rest is for the next one."""
LISTING_S = 5.0


class Proof(msgspec.Struct, frozen=True):
    """How far the broker's floor is borne out."""

    floor: int
    """Everything acked up to here was settled here."""
    acked: int | None
    """The broker's count of deliveries up to there; None where its floor is higher than what could be proven."""
    missing: Sequence[int] = ()
    """Stream sequences, some of them or all, that were acked and never settled here."""


class Runs(msgspec.Struct, frozen=True):
    """Sequences as runs in order."""

    firsts: Sequence[int]
    lasts: Sequence[int]

    def __contains__(self, seq: int) -> bool:
        at = bisect_right(self.firsts, seq) - 1
        return at >= 0 and seq <= self.lasts[at]


def adds_up(floor: int, upto: int, acked: int | None, delivered: int, settled: int) -> bool:
    """Whether no message between two floors can be missing, by counts alone. Pure.

    Either every sequence in between is settled, or as many as were delivered: each delivery was of another message.
    """
    return settled == upto - floor or (acked is not None and settled == delivered - acked)


class Account:
    """The account of one consumer's durable."""

    def __init__(
        self, schema: str, client: Client, durable: tuple[str, str], subjects: Subjects, lend: Lend
    ) -> None:
        """`durable` is its stream and its name."""
        self._client = client
        self._stream, self._durable = durable
        self._subjects = subjects
        self._lend = lend
        self._sql = Statements("projectionist.runner", schema)

    async def prove(self, consumer: int, durable: Durable) -> Proof:
        """Compare the durable's ack floor, as it was just now, with what batches have settled.

        A count of rows where every delivery was the first of its message, which is nearly always. Else, as after
        redeliveries, the stream is asked which messages there are, without their bodies.
        """
        upto, delivered = durable.ack_floor.stream_seq, durable.ack_floor.consumer_seq
        async with self._lend() as connection:
            row = await self._row(connection, "settled_above", consumer, self._durable, upto)
            if row is None or upto <= row["floor"]:
                return Proof(upto, delivered)
            if adds_up(row["floor"], upto, row["acked"], delivered, row["settled"]):
                return Proof(upto, delivered)
            row = await self._row(connection, "settled_runs", consumer, self._durable)
        if row is None or upto <= row["floor"]:
            return Proof(upto, delivered)
        announce("account.listed")
        found = await self._listed(row["floor"], upto, Runs(row["firsts"], row["lasts"]))
        return Proof(upto, delivered) if found is None else found

    async def _row(self, connection: Connection, statement: str, *arguments: object) -> Row | None:
        return await connection.fetchrow(self._sql[statement], *arguments)

    async def _listed(self, floor: int, upto: int, settled: Runs) -> Proof | None:
        """What the stream holds of ours up to there and nobody has settled; None if that is nothing."""
        seen, count = floor, 0
        missing: list[int] = []
        with anyio.move_on_after(LISTING_S):
            blocks = scan(
                self._client, self._stream, self._subjects.filter, floor + 1, upto, headers_only=True
            )
            async with aclosing(blocks):
                async for block in blocks:
                    missing += _unsettled(block, settled, self._is_ours)
                    seen, count = sequence(block[-1]), count + len(block)
                    if count >= MOST:
                        break
                else:
                    seen = upto
        if seen == upto and not missing:
            return None
        return Proof(min(seen, missing[0] - 1) if missing else seen, None, missing)

    def _is_ours(self, subject: str) -> bool:
        try:
            return self._subjects.match(subject) is not None
        except ValueError:  # its pattern matched
            return True


def _unsettled(block: Sequence[Arrival], settled: Runs, is_ours: Callable[[str], bool]) -> list[int]:
    seqs = ((sequence(one), one.subject) for one in block)
    return [seq for seq, subject in seqs if seq not in settled and is_ours(subject)]
