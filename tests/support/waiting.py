"""Waiting without sleeping for a guessed time: for a condition, and for a moment that the code announces."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from projectionist.core import testpoints

Value = TypeVar("Value")

HANG_S = 200.0
"""How long a test waits for what has to happen. It bounds a hang, and says nothing of speed on a busy machine: little
less than a test has in all, so that what it waited for is told."""
HEARD_S = 1.5
"""How long somebody on this machine is given who is to be reached and told something, and then answers nothing."""


async def eventually(probe: Callable[[], Awaitable[Value]], seconds: float = HANG_S) -> Value:
    """Wait for what `probe` answers once that is true; an AssertionError inside it also means "not yet"."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while True:
        began = clock()
        try:
            value = await probe()
            problem = AssertionError(f"still {value!r} after {seconds} s")
            if value:
                return value
        except AssertionError as not_yet:
            problem = not_yet
        now = clock()
        if now > deadline:
            raise problem
        await asyncio.sleep(
            max(0.01, now - began)
        )  # who looks takes half of the time at most, however slow that is


async def comes_true(holds: Callable[[], bool]) -> None:
    """Wait until what can be told without asking anybody holds."""

    async def told() -> bool:
        return holds()

    await eventually(told)


async def cancelled(*tasks: asyncio.Task[Value]) -> list[Value | BaseException]:
    """Cancel these tasks until they have ended, and return how.

    Once is not enough: `asyncio.wait_for` before Python 3.12 loses a cancellation where its result has just come,
    which is often on a slow machine.
    """
    while not all(task.done() for task in tasks):
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=0.5)
    return await asyncio.gather(*tasks, return_exceptions=True)


class Heard:
    """The announcements heard so far, and a way to wait for more."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def note(self, name: str) -> None:
        """Take down one announcement. To be called in the event loop."""
        self.counts[name] += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, name: str, count: int = 1, seconds: float = HANG_S) -> None:
        """Return when `name` has been announced `count` times."""
        try:
            async with asyncio.timeout(seconds):
                while self.counts[name] < count:
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(
                f"{name!r} announced {self.counts[name]} times, not {count}, within {seconds} s; "
                f"heard: {dict(self.counts)}"
            ) from None


async def silent_for(heard: Heard, name: str, seconds: float) -> None:
    """Let time go by in which `name` must not be announced."""
    before = heard.counts[name]
    await asyncio.sleep(seconds)
    assert heard.counts[name] == before


@contextmanager
def listening() -> Iterator[Heard]:
    """Hear what this process announces, from whichever thread, while inside."""
    heard, loop = Heard(), asyncio.get_running_loop()

    def hear(name: str) -> None:
        loop.call_soon_threadsafe(heard.note, name)

    stop = testpoints.listen(hear)
    try:
        yield heard
    finally:
        stop()
