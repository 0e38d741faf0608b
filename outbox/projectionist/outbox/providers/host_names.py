"""Resolves host names to addresses, in threads of its own.

The operating system's resolver blocks for as long as a name server is silent, and cannot be called off. On the threads
that a process has for everything, a dozen names of slow servers would leave all others without a look-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import OrderedDict
from collections.abc import Awaitable
from typing import TypeVar

from projectionist.core import clock

T = TypeVar("T")

MOST = 64
"""Look-ups at once, each in a thread, each of another name."""
SLOW_MOST = MOST // 2
"""So many of them of names that took too long the last time: names that answer find the rest free."""
SLOW_KNOWN = 4096
"""So many slow names are remembered."""
ROOM_S = 1.0
"""So long a look-up waits for its thread."""
WITHIN_S = 5.0
"""A name that has not been found after so long is not waited for any longer."""


class SlowName(OSError):
    """The name server has not answered in time."""


class TooManyLookups(OSError):
    """There was no room for the look-up, so that nothing is known of the name."""


class Names:
    """A resolver for one event loop. Callers that ask for a name which is being looked up wait for the same answer; no
    answer is kept, so that each later connection goes by a new one."""

    def __init__(
        self,
        most: int = MOST,
        slow_most: int = SLOW_MOST,
        within_s: float = WITHIN_S,
        *,
        room_s: float = ROOM_S,
    ) -> None:
        self._running: dict[str, _Lookup] = {}
        self._room, self._slow_room = asyncio.Semaphore(most), asyncio.Semaphore(slow_most)
        self._slow: OrderedDict[str, None] = OrderedDict()
        self._within_s, self._room_s = within_s, room_s

    async def __call__(self, host: str, _port: int) -> list[str]:
        """Return the addresses of a host, each once. Raises OSError: not found, SlowName, TooManyLookups."""
        lookup = self._running.get(host)
        if lookup is None:
            lookup = self._running[host] = _Lookup()
            lookup.task = asyncio.get_running_loop().create_task(self._look_up(lookup, host))
            lookup.task.add_done_callback(_retrieve_error)
        lookup.waiters += 1
        try:
            crowded = TooManyLookups("too many names are being looked up")
            await _within(self._room_s, lookup.begun.wait(), crowded)
            slow = SlowName("its name server did not answer in time")
            return await _within(self._within_s, asyncio.shield(lookup.task), slow)
        finally:
            lookup.waiters -= 1
            if not (lookup.waiters or lookup.begun.is_set()):
                del self._running[host]
                lookup.task.cancel()

    async def _look_up(self, lookup: _Lookup, host: str) -> list[str]:
        """Hold the room until the thread has ended, also where no caller waits for it any more."""
        async with contextlib.AsyncExitStack() as room:
            if host in self._slow:
                await room.enter_async_context(self._slow_room)
            await room.enter_async_context(self._room)
            lookup.begun.set()
            began = clock.now()
            try:
                return await asyncio.shield(_in_a_thread(host))
            finally:
                del self._running[host]
                self._note(host, clock.now() - began)

    def _note(self, host: str, took_s: float) -> None:
        self._slow.pop(host, None)
        if took_s > self._within_s:
            self._slow[host] = None
            if len(self._slow) > SLOW_KNOWN:
                self._slow.popitem(last=False)


class _Lookup:
    task: asyncio.Task[list[str]]

    def __init__(self) -> None:
        self.waiters = 0
        self.begun = asyncio.Event()
        """Set when the operating system is asked."""


def _retrieve_error(task: asyncio.Task[list[str]]) -> None:
    """Mark the task's error as seen: every caller may have given up waiting."""
    if not task.cancelled():
        task.exception()


async def _within(seconds: float, work: Awaitable[T], otherwise: OSError) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise otherwise from None


def _in_a_thread(host: str) -> asyncio.Future[list[str]]:
    """Ask the operating system, in a thread that does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[str]] = loop.create_future()

    def ask() -> None:
        found = _getaddrinfo(host)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(_resolve, future, found)

    try:
        threading.Thread(target=ask, name=f"look-up of {host}"[:64], daemon=True).start()
    except RuntimeError as error:
        raise TooManyLookups("the system has no thread for a look-up") from error
    return future


def _getaddrinfo(host: str) -> list[str] | OSError | UnicodeError:
    try:
        answer = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return error
    return list(dict.fromkeys(str(entry[4][0]) for entry in answer))


def _resolve(future: asyncio.Future[list[str]], found: list[str] | OSError | UnicodeError) -> None:
    if future.done():
        return
    if isinstance(found, list):
        future.set_result(found)
    else:
        future.set_exception(found)
