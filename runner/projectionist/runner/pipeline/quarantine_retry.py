"""Reads what stands in quarantine once more, by the code and settings of now, when somebody has asked for that."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from projectionist.core import clock
from projectionist.core.content_hash import data_hash
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.testpoints import announce
from projectionist.runner.batch.position_lock import lock_positions
from projectionist.runner.batch.types import Batch
from projectionist.runner.batch.writes import StillQuarantined
from projectionist.runner.decoding.delivery import Delivery, Reason
from projectionist.runner.jetstream.api import BrokerError
from projectionist.runner.pipeline.read_guard import under_mark

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.decoding.delivery import Unreadable
    from projectionist.runner.jetstream.api import StoredMessage
    from projectionist.runner.jetstream.message_lookup import Stored
    from projectionist.runner.pipeline.crash_guard import RecentCrash
    from projectionist.runner.pipeline.read_guard import Place

log = logging.getLogger("projectionist.runner")

MOST = 100
GONE = "the stream no longer holds all of its bytes, of which not all were kept"


class Quarantine:
    """Turns what can be read now into batches; what still cannot stays, and says why."""

    def __init__(self, consumer: Consumer, stored: Stored, most_bytes: int, suspicion: RecentCrash) -> None:
        self._consumer = consumer
        self._stored = stored
        self._most_bytes = most_bytes
        self._suspicion = suspicion

    async def take(self, store: InboxStore) -> tuple[list[Batch], bool]:
        """Return a batch for each incarnation of the stream, and whether more is to be read again.

        Each delivery names the time it was asked for: its batch takes it only if nobody has acted on it since.
        """
        rows = await store.quarantine_due(MOST, self._most_bytes)
        if not rows:
            return [], False
        out: dict[int, list[Delivery]] = {}
        kept: dict[int, list[StillQuarantined]] = {}
        for row, head, data in await self._whole(rows):
            if self._is_suspect(row) and data is not None:
                place = row["incarnation"], row["seq"]
                arrival = Arrival(
                    subject=row["subject"], reply=b"", head=head, data=data, received=clock.now()
                )
                async with self._suspicion.trial:
                    await under_mark(store, self._consumer, place, partial(self._reread, place), arrival)
            one = self._read(row, head, data)
            if isinstance(one, Delivery):
                out.setdefault(row["incarnation"], []).append(one)
            else:
                kept.setdefault(row["incarnation"], []).append(one)
        if kept:
            await self._keep(store, kept)
        announce("quarantine.read")
        return [Batch(deliveries=deliveries) for deliveries in out.values()], len(rows) == MOST and bool(
            out or kept
        )

    def _is_suspect(self, row: Record) -> bool:
        """Return whether reading it has ended processes, or may have: what was asked for later has not."""
        until = self._suspicion.until
        return row["reason"] == Reason.FAULT or (until is not None and row["due"] <= until)

    async def _whole(self, rows: Iterable[Record]) -> list[tuple[Record, bytes | None, bytes | None]]:
        """Return headers and data of each, from the stream where not all was kept; no data if that is gone.

        What the broker cannot be asked about is left out, and looked at with the next sweep.
        """
        cut = [row["seq"] for row in rows if self._is_in_stream(row)]
        try:
            found = await self._stored.each(cut, self._most_bytes) if cut else {}
        except BrokerError:
            found = {}
        whole = [
            (row, row["headers"], row["data"] if row["is_whole"] else None)
            for row in rows
            if not self._is_in_stream(row)
        ]
        for row in rows:
            if self._is_in_stream(row) and row["seq"] in found:
                message = found[row["seq"]]
                known = message if message is not None and is_of(row, message) else None
                kept = row["headers"] is not None or row["data"] is not None
                head = row["headers"] if kept or known is None else known.hdrs
                whole.append((row, head, None if known is None else known.data))
        return whole

    def _is_in_stream(self, row: Record) -> bool:
        return not row["is_whole"] and bool(row["incarnation"] == self._consumer.incarnation)

    def _read(self, row: Record, head: bytes | None, data: bytes | None) -> Delivery | StillQuarantined:
        if data is None:
            return StillQuarantined(seq=row["seq"], due=row["due"], reason=row["reason"], detail=GONE)
        arrival = Arrival(subject=row["subject"], reply=b"", head=head, data=data, received=clock.now())
        one = self._reread((row["incarnation"], row["seq"]), arrival)
        if not isinstance(one, Delivery):
            return StillQuarantined(
                seq=row["seq"],
                due=row["due"],
                reason=one.reason,
                detail=one.detail,
                source=one.source,
                id=one.id,
                aggregate=one.aggregate,
                version=one.version,
            )
        one.released, one.incarnation = row["due"], row["incarnation"]
        one.received_us = int(row["received"].timestamp() * 1_000_000)
        return one

    def _reread(self, place: Place, arrival: Arrival) -> Delivery | Unreadable:
        incarnation, seq = place
        return self._consumer.reader.reread(arrival, seq, incarnation)

    async def _keep(self, store: InboxStore, kept: Mapping[int, Sequence[StillQuarantined]]) -> None:
        """Record one more try of what could not be read; superseded code does not get as far as that."""
        async with lock_positions(store, self._consumer, ()):
            for incarnation, entries in kept.items():
                await store.quarantine_keep(incarnation, self._consumer.code, entries)
        stay = [one for entries in kept.values() for one in entries]
        log.info(
            "%s: %d entries read again stay in quarantine, the first at sequence %d: %s",
            self._consumer.definition.name,
            len(stay),
            stay[0].seq,
            stay[0].reason,
        )


def is_of(row: Record, message: StoredMessage) -> bool:
    """Return whether a message of the stream is the one in quarantine."""
    return bool(row["hash"] == data_hash(message.data))
