"""After a process broke off: what may have ended it by being read is read under a mark first, and at last not at all.

Decoding runs a user's code too: types, upcasters. What ends the process there has reached no batch in which it could be
tried with care. The marks are per code, since newer code may read it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from projectionist.core.testpoints import announce
from projectionist.runner.jetstream.ack_subject import parse_ack_subject
from projectionist.runner.pipeline.crash_guard import MOST_MARKS, SUSPECT_FROM

if TYPE_CHECKING:
    from projectionist.core.nats.fast_client import Arrival
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.batch.shared_pool import SharedPool
    from projectionist.runner.pipeline.crash_guard import RecentCrash

log = logging.getLogger("projectionist.runner")

Place = tuple[int, int]
"""Incarnation of the stream, and sequence."""

READING = "reading"
"""In place of the source, which is not known before it was read."""
MOST_READS = MOST_MARKS + 1
"""One more than an event is tried: while it is read another one may end the process, as often as that one may."""


class Reads:
    """Looks at what arrives while there is suspicion."""

    def __init__(self, consumer: Consumer, access: SharedPool, suspicion: RecentCrash) -> None:
        self._consumer = consumer
        self._access = access
        self._suspicion = suspicion

    async def begin(self) -> None:
        """Learn what this code is not to read."""
        async with self._access.store(self._consumer) as store:
            rows = await store.rows("select_crashing_reads", READING, _suffix(self._consumer), MOST_READS)
        for row in rows:
            incarnation, seq, _ = row["id"].split("/")
            self._consumer.reader.deadly.add((int(incarnation), int(seq)))

    async def look(self, arrivals: Sequence[Arrival]) -> None:
        """Read alone what was delivered so often that reading it may have ended those who did."""
        reader = self._consumer.reader
        for arrival in arrivals:
            try:
                seq, delivered, _ = parse_ack_subject(arrival.reply)
            except (ValueError, IndexError):  # no delivery, which reading will say
                continue
            if delivered >= SUSPECT_FROM:
                async with self._suspicion.trial, self._access.store(self._consumer) as store:
                    await under_mark(store, self._consumer, (reader.incarnation, seq), reader.read, arrival)


async def under_mark(
    store: InboxStore, consumer: Consumer, place: Place, read: Callable[[Arrival], object], arrival: Arrival
) -> None:
    """Read it under a mark, while the caller holds the trial; what has ended too many readers is not read, now and
    later, unless somebody edits it."""
    identity = READING, f"{place[0]}/{place[1]}{_suffix(consumer)}"
    row = await store.row("increment_crash_marks", *identity, consumer.runner)
    assert row is not None, "it returns what it has written"
    announce("reads.marked")
    if row["marks"] > MOST_READS:
        consumer.reader.deadly.add(place)
        log.error(
            "%s: message %d of incarnation %d is not read: %d tries of it ended the process",
            consumer.definition.name,
            place[1],
            place[0],
            MOST_READS,
        )
        return
    consumer.reader.deadly.discard(place)
    read(arrival)
    await store.run("delete_crash_mark", *identity)


def _suffix(consumer: Consumer) -> str:
    return f"/{consumer.code.hex()[:16]}"
