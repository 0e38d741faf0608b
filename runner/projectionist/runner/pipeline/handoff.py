"""A place for one thing between two tasks; unlike a cancelled receive, a wait that times out here loses nothing."""

from __future__ import annotations

from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Handoff(Generic[T]):
    """One task puts, one takes; putting waits until the one before has been taken."""

    def __init__(self) -> None:
        self._held: list[T] = []
        self._closed = False
        self._changed = anyio.Event()

    async def put(self, thing: T) -> None:
        """Leave `thing` for the other task."""
        while self._held:
            await self._changed.wait()
        self._held.append(thing)
        self._wake()

    async def take(self, timeout_s: float) -> T | None:
        """What was left, or None when nothing came in time or nothing will come any more."""
        if not self._held and not self._closed:
            with anyio.move_on_after(timeout_s):
                while not self._held and not self._closed:
                    await self._changed.wait()
        if not self._held:
            return None
        thing = self._held.pop()
        self._wake()
        return thing

    def close(self) -> None:
        """Nothing more will be put."""
        self._closed = True
        self._wake()

    @property
    def over(self) -> bool:
        """Whether it is closed and empty."""
        return self._closed and not self._held

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
