"""Opens what batches have staged, beside the senders of one relay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from projectionist.outbox.relay.database_link import DatabaseUnavailable

if TYPE_CHECKING:
    from projectionist.outbox.relay.intent_store import IntentStore

AGAIN_S = 0.5


class Unpacker:
    """One for all providers. `opened` is told after each time there was something, and after each wake-up."""

    def __init__(self, store: IntentStore, opened: Callable[[], None], poll_s: float) -> None:
        self._store = store
        self._opened = opened
        self._poll_s = poll_s
        self._awake = anyio.Event()

    def wake(self) -> None:
        """There may be something to open."""
        self._awake.set()

    async def run(self) -> None:
        """Open until cancelled."""
        begun = False
        while True:
            woken, self._awake = self._awake.is_set(), anyio.Event()
            try:
                if not begun:
                    await self._store.allow()
                    begun = True
                found = await self._store.open()
            except DatabaseUnavailable:
                await anyio.sleep(AGAIN_S)
                continue
            if found or woken:
                self._opened()
            if not found:
                with anyio.move_on_after(self._poll_s):
                    await self._awake.wait()
