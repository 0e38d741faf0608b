"""Waits for those whose snapshot is from before the new generation had caught up: they would see old rows, or none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

from projectionist.core import clock
from projectionist.core.testpoints import announce
from projectionist.runner.database.queries import RebuildError

if TYPE_CHECKING:
    from projectionist.runner.database.queries import Build, Queries
    from projectionist.runner.history.progress import Progress

MOMENT_S = 0.1
"""How long the swap waits, while batches do, for snapshots from before the last events."""
MOMENTS = 10
"""So many tries to swap wait for them."""
PAUSE_S = 0.2
FRESH_S = 300.0
"""For so long after it had caught up once, later readers are not waited for as well: there may always be some."""


class SnapshotTimeout(RebuildError):
    """A reader with an old snapshot would be shown old rows of the new generation, or none, and did not end in time."""


class Unseen(RebuildError):
    """A standby does not say what its readers see: one of them may be in the way."""


class Snapshots:
    """Readers of this database, whatever their role, and of its standbys; `blindly`: despite silent standbys."""

    def __init__(
        self,
        queries: Queries,
        build: Build,
        progress: Progress,
        *,
        blindly: bool,
        wait_s: float,
        unseen_s: float,
    ) -> None:
        self._wait_s, self._unseen_s = wait_s, unseen_s
        self._queries = queries
        self._build = build
        self._progress = progress
        self._blindly = blindly
        self._moments = 0
        self._horizon = ""
        self._there: list[str] = []
        self._waited: list[str] | None = None
        """Those that were there at the first look: who began later sees the new rows."""

    async def wait(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Wait until no snapshot shows the time before the shadow had caught up.

        Raises SnapshotTimeout after `wait_s`, or Unseen.

        `meanwhile` catches up: who comes now sees the new rows as they are now.
        """
        began, logged = clock.now(), False
        async with self._queries.connection.transaction():
            await self._queries.hold(self._build)
            if await self._queries.value("record_rows_visible_at", self._build.number, FRESH_S) is not None:
                self._waited = None
        while old := [*await self._sessions(), *await self._standbys(clock.now() - began)]:
            named = ", ".join(old)
            if not logged:
                self._progress.say(f"waiting for readers from before it had caught up: {named}")
                announce("rebuild.waiting")
                logged = True
            if clock.now() > began + self._wait_s:
                raise SnapshotTimeout(
                    f"readers from before it had caught up are still there: {named}",
                    remedy="End their transactions, then rebuild again: it goes on from here",
                )
            await anyio.sleep(PAUSE_S)
            await meanwhile()

    async def note(self) -> None:
        """Note who has a snapshot from before this moment, in which the last events have been folded.

        In the new generation such a reader would find what was there then: less than it could see in the old one.
        """
        self._horizon = await self._queries.value("select_snapshot_horizon")
        self._there = await self._still_there(None)

    async def passed(self) -> bool:
        """Return whether all of those are over; they are waited for while the view is locked, for a moment."""
        until = clock.now() + MOMENT_S
        while self._there:
            if self._moments >= MOMENTS:
                self._progress.say(
                    "sessions read without a pause: a snapshot shows the rows of when it was taken"
                )
                return True
            if clock.now() > until:
                self._moments += 1
                announce("swap.seen")
                return False
            await anyio.sleep(MOMENT_S / 10)
            self._there = await self._still_there(self._there)
        return True

    async def _still_there(self, of: list[str] | None) -> list[str]:
        rows = await self._queries.rows("select_older_snapshots", self._horizon, of)
        return [row["transaction"] for row in rows]

    async def _sessions(self) -> list[str]:
        rows = await self._queries.rows("select_old_snapshots", self._build.number, self._waited)
        self._waited = [row["transaction"] for row in rows]
        return [f"pid {row['pid']} {row['name']!r}" for row in rows]

    async def _standbys(self, waited_s: float) -> list[str]:
        rows = await self._queries.rows("select_lagging_standbys", self._build.number)
        unseen = [row["name"] for row in rows if row["unseen"] and not self._blindly]
        if unseen and waited_s > self._unseen_s:
            raise Unseen(
                f"{', '.join(unseen)} does not say what its readers see, who may find the new generation empty",
                remedy="Set hot_standby_feedback = on there; or say unseen_readers = true in [postgres], "
                "where nobody reads read models on it",
            )
        return [row["name"] for row in rows if not row["unseen"]] + unseen
