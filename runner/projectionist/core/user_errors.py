"""What a user's code, or a driver, may raise without having a say about the task and the process that call it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

RAISED = (BaseException,)
"""Whatever it is: a library may raise what is no Exception, and who catches this asks first whom it is meant for."""


class StrayCancellation(RuntimeError):
    """Something that was awaited had been cancelled, and nobody had asked the task to end."""


def is_ours(error: BaseException) -> bool:
    """Return whether what a call that awaits nothing has raised is meant for this process, not to be answered."""
    return isinstance(error, KeyboardInterrupt)


def is_cancelled(error: BaseException) -> bool:
    """Return whether it ends the task that runs now, or the process, and so is not to be answered.

    A cancellation also comes out of awaiting something else that was cancelled: a task of a handler's own, a request
    whose connection is gone. Nobody has asked this task to end then. Raised by a handler, GeneratorExit is an error as
    any other; in a task that nobody runs any more it closes what was awaited.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop any more
        task = None
    if isinstance(error, GeneratorExit):
        return task is None
    if isinstance(error, BaseExceptionGroup) and not isinstance(error, Exception):
        return any(is_cancelled(one) for one in error.exceptions)
    ends = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
    return ends or is_ours(error)


async def lasting(run: Callable[[], Awaitable[None]]) -> None:
    """Run what others rely on to go on; raises StrayCancellation where a cancellation that is not its own ends it.

    A task group takes a task that ends so for one that is done, and tells nobody.
    """
    try:
        await run()
    except asyncio.CancelledError as error:
        if is_cancelled(error):
            raise
        raise StrayCancellation(f"something that was awaited has been cancelled: {error}") from error
