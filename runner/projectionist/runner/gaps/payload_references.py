"""Fetches the bytes that parked events left in the stream, when their aggregate is about to need them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from projectionist.core.testpoints import announce
from projectionist.runner.batch.inbox_store import Fetched
from projectionist.runner.batch.position_lock import lock_positions
from projectionist.runner.jetstream.api import BrokerError

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.jetstream.api import StoredMessage
    from projectionist.runner.jetstream.message_lookup import Stored


class References:
    """Fills in references between two batches: the broker is never asked while a lock is held."""

    def __init__(self, consumer: Consumer, stored: Stored, most_bytes: int) -> None:
        self._consumer = consumer
        self._stored = stored
        self._most_bytes = most_bytes

    async def fetch(self, store: InboxStore, due: Sequence[str]) -> set[str]:
        """Fetch what the due heads among these aggregates need next, at most as much as one transaction drains.

        Returns the aggregates that found no room this time: they are to be left due. Those the broker could not
        be asked about are not among them; their batch finds that the bytes are missing and puts the head off.
        """
        rows = await store.references(due, self._consumer.policy.drain_batch_size)
        reads = self._consumer.reader.decodes
        wanted = [row for row in rows if reads(row["type"])]
        if not wanted:
            return set()
        try:
            found = await self._stored.each(self._asked(wanted), self._most_bytes)
        except BrokerError:
            return set()
        done = [row for row in wanted if not self._is_ours(row) or row["seq"] in found]
        async with lock_positions(store, self._consumer, {row["aggregate"] for row in done}):
            await store.fill([self._fetched(row, found.get(row["seq"])) for row in done])
        announce("references.fetched")
        return {row["aggregate"] for row in wanted} - {row["aggregate"] for row in done}

    def _asked(self, rows: Iterable[Record]) -> list[int]:
        return [row["seq"] for row in rows if self._is_ours(row)]

    def _is_ours(self, row: Record) -> bool:
        """Return whether it was parked from the stream that is read now."""
        return bool(row["incarnation"] == self._consumer.incarnation)

    def _fetched(self, row: Record, message: StoredMessage | None) -> Fetched:
        source, identity, where = row["source"], row["id"], f"sequence {row['seq']} of the stream"
        if not self._is_ours(row):
            return source, identity, None, f"its bytes stood at {where} that this one has replaced"
        if message is None:
            return source, identity, None, f"its bytes stood at {where}, which no longer holds it"
        data = self._consumer.reader.stored(row, message.hdrs, message.data)
        if data is None:
            return source, identity, None, f"its bytes stood at {where}, which holds another event by now"
        return source, identity, data, None
