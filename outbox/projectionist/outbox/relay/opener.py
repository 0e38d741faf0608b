"""The opener: unpacks staged intents, takes back what was cancelled, and has what is due enter the outbox.

In this order, which is all that makes a cancel be in time: look at the schedule and the database's clock, open what was
staged until then, apply cancels, promote. Whatever is committed before an intent is due is seen by the look that finds
it due. Who dies anywhere in between leaves nothing behind but what the next one does from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from projectionist.core import clock
from projectionist.core.testpoints import announce
from projectionist.outbox.intents.staging import Opened
from projectionist.outbox.relay.database_link import DatabaseUnavailable
from projectionist.outbox.relay.schedule_store import AT_ONCE

if TYPE_CHECKING:
    from projectionist.outbox.relay.schedule_store import ScheduleStore

AGAIN_S = 0.5
"""How long it waits for a database that cannot be used, and for what another session holds."""


class Opener:
    """Opens for one relay; of several, each by itself: one is as good as the other."""

    def __init__(self, store: ScheduleStore, opened: Callable[[], None], poll_s: float) -> None:
        """Take `opened`, which is called whenever intents have entered the outbox, and after each wake-up."""
        self._store = store
        self._opened = opened
        self._poll_s = poll_s
        self._awake = anyio.Event()
        self._look_at = 0.0

    def wake(self) -> None:
        """Look for staged intents now."""
        self._awake.set()

    async def run(self) -> None:
        """Open until cancelled."""
        begun = False
        while True:
            woken, self._awake = self._awake.is_set(), anyio.Event()
            try:
                if not begun:
                    await self._store.retry_refused()
                    woken = begun = True
                await self._turn(woken=woken)
            except DatabaseUnavailable:
                await anyio.sleep(AGAIN_S)
                continue
            if woken:
                self._opened()
            with anyio.move_on_after(self._look_at - clock.now()):
                await self._awake.wait()

    async def _turn(self, *, woken: bool) -> None:
        """Open what is staged, and look at the schedule where it is time, or where it was added to."""
        opened = await self._open() if woken else Opened(0)
        if opened.timed or clock.now() >= self._look_at:
            await self.step()
        if opened.intents:
            self._awake.set()  # there may be more

    async def step(self) -> None:
        """Go once through look, open, cancel and promote, and say when to look again."""
        due = await self._store.look()
        announce("schedule.looked")
        while due.newest and await self._store.is_packed(due.newest):
            await self._open()
        left = await self._cancel() if due.cancels or due.newest else 0
        moved = await self._store.promote(due) + await self._store.expire(due.expired)
        if moved:
            announce("schedule.promoted")
            self._opened()
        waits = [self._poll_s, due.next_s or self._poll_s, AGAIN_S if left else self._poll_s]
        self._look_at = clock.now() + (0.0 if moved and due.found >= AT_ONCE else min(waits))

    async def _open(self) -> Opened:
        opened = await self._store.open()
        if opened.intents:
            self._opened()
        return opened

    async def _cancel(self) -> int:
        """Apply cancels until none is left that can be applied; return how many are left."""
        while True:
            asked, left = await self._store.cancel()
            if asked:
                announce("schedule.cancelled")
            if asked == left or asked < AT_ONCE:
                return left
