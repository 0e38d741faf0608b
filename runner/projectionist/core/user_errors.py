"""What a user's code, or a driver, may raise without having a say about the task and the process that call it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

RAISED = (Exception, asyncio.CancelledError, SystemExit)
"""Not KeyboardInterrupt, which comes from a person and is meant for the process."""


class Stray(RuntimeError):
    """Something that was awaited had been cancelled, and nobody had asked the task to end."""


def is_cancelled(error: BaseException) -> bool:
    """Whether it ends the task that runs now, and so is not to be answered.

    A cancellation also comes out of awaiting something else that was cancelled: a task of a handler's own, a request
    whose connection is gone. Nobody has asked this task to end then.
    """
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def lasting(run: Callable[[], Awaitable[None]]) -> None:
    """Run what others rely on to go on; raises Stray where it would end by a cancellation that is not its own.

    A task group takes a task that ends so for one that is done, and tells nobody.
    """
    try:
        await run()
    except asyncio.CancelledError as error:
        if is_cancelled(error):
            raise
        raise Stray(f"something that was awaited has been cancelled: {error}") from error
