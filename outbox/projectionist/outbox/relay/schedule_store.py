"""The statements about intents that are sent later: what is due, what was taken back, what enters the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.outbox.intents.staging import Opened, unpack_rows

if TYPE_CHECKING:
    from projectionist.outbox.relay.database_link import DatabaseLink

AT_ONCE = 1_000
"""So many are promoted, or taken back, in one statement."""
AGAIN_S = 5.0
"""How soon at the least an intent is looked at again whose aggregate waits."""


class DueIntents(msgspec.Struct):
    """What the schedule held at one moment, all of one snapshot."""

    newest: int
    """The last row of intents that was staged then; 0 for none."""
    cancels: bool
    """Some cancels were not applied yet."""
    next_s: float | None
    """In how many seconds the next one is due that is not due yet."""
    able: list[int]
    parked: list[int]
    """Due, of aggregates whose events wait."""
    expired: list[int]

    @property
    def found(self) -> int:
        """Return how many there is something to be done about."""
        return len(self.able) + len(self.parked) + len(self.expired)


class ScheduleStore:
    """Reads and moves what is scheduled, for one relay."""

    def __init__(self, link: DatabaseLink) -> None:
        self._link = link

    async def open(self) -> Opened:
        """Unpack some staged intents."""
        async with self._link.lent() as connection:
            return await unpack_rows(connection, self._link.sql)

    async def is_packed(self, newest: int) -> bool:
        """Return whether something that was staged up to there is to be unpacked still."""
        async with self._link.lent() as connection:
            return bool(await connection.fetchval(self._link.sql["has_packed_intents"], newest))

    async def retry_refused(self) -> None:
        """Have refused rows of staged intents tried again: this code may be newer."""
        async with self._link.lent() as connection:
            await connection.execute(self._link.sql["retry_refused_staged_intents"])

    async def look(self, most: int = AT_ONCE) -> DueIntents:
        """Return what is due, as of one moment."""
        async with self._link.lent() as connection:
            rows = await connection.fetch(self._link.sql["select_due_intents"], most)
        by: dict[str, list[int]] = {"able": [], "parked": [], "expired": []}
        for row in rows:
            if row["intent"] is not None:
                by[row["verdict"]].append(row["intent"])
        first = rows[0]
        return DueIntents(newest=first["newest"], cancels=first["cancels"], next_s=first["next_s"], **by)

    async def cancel(self, most: int = AT_ONCE) -> tuple[int, int]:
        """Apply cancels; return how many were tried, and how many of them have to be tried again."""
        async with self._link.lent() as connection:
            row = await connection.fetchrow(self._link.sql["apply_cancels"], most)
        assert row is not None, "it counts"
        return row["asked"], row["open"]

    async def promote(self, due: DueIntents) -> int:
        """Have what is due enter the outbox; return how many have."""
        if not due.able and not due.parked:
            return 0
        async with self._link.lent() as connection:
            promoted: int = await connection.fetchval(
                self._link.sql["promote_intents"], due.able, due.newest, due.parked, AGAIN_S
            )
        return promoted

    async def expire(self, intents: Sequence[int]) -> int:
        """Discard those of these that have not begun; return how many."""
        if not intents:
            return 0
        async with self._link.lent() as connection:
            expired: int = await connection.fetchval(self._link.sql["expire_intents"], list(intents))
        return expired
