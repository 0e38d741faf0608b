"""How work that lasts is told to stop: by a signal, or, inside another program, by being cancelled."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

log = logging.getLogger("projectionist.core")


class Stop:
    """What is done when it is told so: `ask` says whether there is anything to wait for, `late` is for impatience."""

    def __init__(
        self, ask: Callable[[], bool], late: Callable[[], Awaitable[None]], patience_s: float
    ) -> None:
        self._ask, self._late, self._patience_s = ask, late, patience_s
        self._over = anyio.Event()

    @asynccontextmanager
    async def heard(self, *, signals: bool, begun: Callable[[], object]) -> AsyncIterator[TaskGroup]:
        """Run the work inside until a signal comes. Without `signals` whoever cancels it waits until what has begun is
        settled."""
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope(shield=not signals) as work:
                tasks.start_soon(self._on_signal if signals else self._on_cancel, work, begun)
                try:
                    yield tasks
                finally:
                    self._over.set()
            tasks.cancel_scope.cancel()

    async def _on_signal(self, work: anyio.CancelScope, begun: Callable[[], object]) -> None:
        # Listened to until the end: another signal would end the process with what it holds in memory.
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            begun()
            async for number in signals:
                log.info("%s: stopping; what has begun is settled", signal.Signals(number).name)
                if not self._ask():
                    work.cancel()
                break
            with anyio.move_on_after(self._patience_s):
                async for _ in signals:
                    break
            await self._late()
            work.cancel()

    async def _on_cancel(self, work: anyio.CancelScope, begun: Callable[[], object]) -> None:
        begun()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                if not self._over.is_set() and self._ask():
                    with anyio.move_on_after(self._patience_s):
                        await self._over.wait()
                    if not self._over.is_set():
                        await self._late()
                work.cancel()
