"""Tasks in groups: one error out of a group of errors, and many short tasks at little cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from projectionist.core.user_errors import StrayCancellation

T = TypeVar("T")
ErrorT = TypeVar("ErrorT", bound=BaseException)


def leaves(error: ErrorT) -> Iterator[ErrorT]:
    """Yield the errors inside exception groups, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from leaves(cast("ErrorT", one))
    else:
        yield error


@contextmanager
def unwrap_single_exception() -> Iterator[None]:
    """Raise the one error inside exception groups; several different ones stay a group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


class TaskSet:
    """Tasks that end before its block does, at half the cost of a task group.

    One that fails calls `failed`, and the block raises its error.
    """

    def __init__(self, failed: Callable[[], None]) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()
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
        """Start a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def watch(self, future: asyncio.Future[T], ended: Callable[[asyncio.Future[T]], None]) -> None:
        """Count a future among the tasks; `ended` is called at its end, cancelled or done."""
        self._tasks.add(future)
        future.add_done_callback(self._tasks.discard)
        future.add_done_callback(ended)

    def cancel(self) -> None:
        """Cancel all tasks that run now."""
        for task in tuple(self._tasks):
            task.cancel()

    def check(self) -> None:
        """Raise the error of a task that failed."""
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
        return (
            None if task.cancelling() else StrayCancellation("something that was awaited has been cancelled")
        )
