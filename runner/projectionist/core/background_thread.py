"""Work on a thread and an event loop of its own: what has to go on while handlers hold up everything else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress

STOPPING_S = 5.0
"""How long it is waited for when it is to end."""


class BackgroundThread:
    """Runs `work` from `start` until it returns, which it has to do soon after the event it is given is set."""

    def __init__(self, name: str, work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        self._work = work
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._ended: Future[None] = Future()
        self._ended.set_running_or_notify_cancel()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    async def ended(self) -> None:
        """Return when the work has; raises what it raised."""
        await asyncio.wrap_future(self._ended)

    async def stop(self, within_s: float = STOPPING_S) -> bool:
        """Have it end, and return whether it has, within some seconds; what it raises is for who waits for `ended`."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it has ended meanwhile
                self._loop.call_soon_threadsafe(self._ending.set)
            await asyncio.wait([asyncio.wrap_future(self._ended)], timeout=within_s)
        return self._ended.done()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._work(self._ending))
        except BaseException as error:  # noqa: BLE001 - it is for another thread to see
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)
        finally:
            self._loop.close()
