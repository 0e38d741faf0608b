"""What waits for its time, and is taken up between batches of new events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from projectionist.core.postgres.error_class import ErrorClass, classify
from projectionist.runner.batch.planning import UNORDERED
from projectionist.runner.batch.types import Batch
from projectionist.runner.database.chores import OptionalSteps
from projectionist.runner.gaps.payload_references import References
from projectionist.runner.pipeline.quarantine_retry import Quarantine

if TYPE_CHECKING:
    from projectionist.runner.batch.batch_session import BatchSession
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.database.chores import FailureBook
    from projectionist.runner.jetstream.message_lookup import Stored
    from projectionist.runner.pipeline.crash_guard import RecentCrash

MOST_DUE = 200
NOTHING: tuple[list[Batch], bool] = ([], False)

Heads = Callable[["InboxStore"], Awaitable[list[str]]]
"""Which aggregates a process takes up next, at most MOST_DUE."""


class DueWork:
    """Finds what is due for one consumer: retries, the rest of long drains, quarantine to be read again."""

    def __init__(
        self,
        consumer: Consumer,
        session: BatchSession,
        stored: Stored,
        most_bytes: int,
        book: FailureBook,
        suspicion: RecentCrash,
        heads: Heads | None = None,
    ) -> None:
        """Take what gives out work; `heads` stands in for the list of all that is due."""
        self._consumer = consumer
        self._session = session
        self._due_heads = heads or _due_heads
        self._references = References(consumer, stored, most_bytes)
        self._quarantine = Quarantine(consumer, stored, most_bytes, suspicion)
        self._contained = OptionalSteps(consumer.definition.name, book)

    async def take(self) -> tuple[list[Batch], bool]:
        """Return batches to be settled now, and whether there is more; nothing while PostgreSQL is away."""
        try:
            store, _ = await self._session.ready()
            unordered = self._consumer.sequence == UNORDERED
            step = self._entries(store) if unordered else self._heads(store)
            batches, more = await self._contained.result(step, NOTHING, "looking for what is due")
            again = self._quarantine.take(store)
            read, unread = await self._contained.result(again, NOTHING, "reading quarantine again")
        except Exception as error:  # whatever its class: only an outage is waited out
            if classify(error) is not ErrorClass.INFRASTRUCTURE:
                raise
            await self._session.failed(error)
            return [], False
        self._session.read()
        return batches + read, more or unread

    async def _entries(self, store: InboxStore) -> tuple[list[Batch], bool]:
        entries = await store.due_entries(MOST_DUE)
        return [Batch(entries=entries)] if entries else [], len(entries) == MOST_DUE

    async def _heads(self, store: InboxStore) -> tuple[list[Batch], bool]:
        due = await self._due_heads(store)
        if not due:
            return [], False
        fetching = self._references.fetch(store, due)
        later = await self._contained.result(fetching, set(), "fetching references")
        now = [aggregate for aggregate in due if aggregate not in later]
        return [Batch(due=now)] if now else [], len(due) == MOST_DUE or bool(later)


async def _due_heads(store: InboxStore) -> list[str]:
    return await store.due(MOST_DUE)
