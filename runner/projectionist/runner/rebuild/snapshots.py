"""Waits for those whose snapshot is from before the new generation had caught up: they would see old rows, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from projectionist.core import clock
from projectionist.core.signals import announce
from projectionist.runner.rebuild.desk import RebuildError

if TYPE_CHECKING:
    from projectionist.runner.rebuild.desk import Build, Desk
    from projectionist.runner.rebuild.progress import Progress

WAIT_S = 60.0
UNSEEN_S = 5.0
"""So long a standby that has just connected may take to say what its readers see."""
PAUSE_S = 0.2
FRESH_S = 300.0
"""For so long after it had caught up once, later readers are not waited for as well: there may always be some."""


class Waited(RebuildError):
    """A reader with an old snapshot would be shown old rows of the new generation, or none, and did not end in time."""


class Unseen(RebuildError):
    """A standby does not say what its readers see: nobody can know whether one of them is in the way."""


class Snapshots:
    """Readers of this database, whatever their role, and of its standbys; `blindly`: despite silent standbys."""

    def __init__(self, desk: Desk, build: Build, progress: Progress, *, blindly: bool) -> None:
        self._desk = desk
        self._build = build
        self._progress = progress
        self._blindly = blindly
        self._waited: list[str] | None = None
        """Those that were there at the first look: who began later sees the new rows."""

    async def wait(self) -> None:
        """Wait until nobody sees the time before the shadow had caught up; raises Waited after a minute, or Unseen."""
        began, told = clock.now(), False
        async with self._desk.connection.transaction():
            await self._desk.hold(self._build)
            if await self._desk.value("build_settled", self._build.number, FRESH_S) is not None:
                self._waited = None
        while old := [*await self._sessions(), *await self._standbys(clock.now() - began)]:
            named = ", ".join(old)
            if not told:
                self._progress.say(f"waiting for readers from before it had caught up: {named}")
                announce("rebuild.waiting")
                told = True
            if clock.now() > began + WAIT_S:
                raise Waited(
                    f"readers from before it had caught up are still there: {named}",
                    remedy="End their transactions, then rebuild again: it goes on from here",
                )
            await anyio.sleep(PAUSE_S)

    async def _sessions(self) -> list[str]:
        rows = await self._desk.rows("build_old_snapshots", self._build.number, self._waited)
        self._waited = [row["transaction"] for row in rows]
        return [f"pid {row['pid']} {row['name']!r}" for row in rows]

    async def _standbys(self, waited_s: float) -> list[str]:
        rows = await self._desk.rows("build_old_standbys", self._build.number)
        unseen = [row["name"] for row in rows if row["unseen"] and not self._blindly]
        if unseen and waited_s > UNSEEN_S:
            raise Unseen(
                f"{', '.join(unseen)} does not say what its readers see, who may find the new generation empty",
                remedy="Set hot_standby_feedback = on there; or say unseen_readers = true in [postgres], "
                "where nobody reads read models on it",
            )
        return [row["name"] for row in rows if not row["unseen"]] + unseen
