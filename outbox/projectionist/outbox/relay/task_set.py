"""The attempts of one sender as tasks: a task group costs as much as the rest of an attempt that takes no time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from projectionist.core.user_errors import Stray


class TaskSet:
    """Tasks that end before its block does. One that fails calls `failed`, and the block raises what it raised."""

    def __init__(self, failed: Callable[[], None]) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = failed
        self._error: BaseException | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.cancel()
        while self._tasks:
            try:
                await asyncio.wait(self._tasks)
            except asyncio.CancelledError:
                self.cancel()
                await asyncio.wait(self._tasks)
                raise
        self.check()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """Cancel everything that runs now."""
        for task in tuple(self._tasks):
            task.cancel()

    def check(self) -> None:
        """Raise what a task has raised."""
        if self._error is not None:
            raise self._error

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if error := self._error_of(task):
            self._error = self._error or error
            self._failed()

    @staticmethod
    def _error_of(task: asyncio.Task[None]) -> BaseException | None:
        if not task.cancelled():
            return task.exception()
        return None if task.cancelling() else Stray("something that was awaited has been cancelled")
