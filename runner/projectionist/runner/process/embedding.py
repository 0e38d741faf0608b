"""Consumers and relay inside another program, for the length of a block: what `App.running` gives.

They work in a task of their own, so that a block may begin in one task and end in another, as fixtures of tests do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from projectionist.core.errors import DefinitionError
from projectionist.migrations import refuse_unprepared
from projectionist.outbox.relay import relay
from projectionist.runner.process.end_reason import end_reason
from projectionist.runner.process.migrate_app import migrate_app
from projectionist.runner.process.run import refuse_unmonitored, run
from projectionist.runner.process.running import Running

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition

Part = Callable[[], Coroutine[Any, Any, None]]


@asynccontextmanager
async def embedded(
    definitions: Sequence[ConsumerDefinition],
    providers: Mapping[str, Any],
    settings: Settings,
    *,
    consumers: Sequence[str],
    migrate: bool,
) -> AsyncIterator[Running]:
    """Run these consumers and providers until the block is left, and settle what has begun then.

    `consumers`: all of the app's, whose intents are held where it lacks their provider. What no waiting mends cancels
    the block, and is raised at its end.
    """
    if not (definitions or providers):
        raise DefinitionError(
            "there is nothing to run", remedy="Name consumers, or give the app projections or providers"
        )
    refuse_unmonitored(definitions, settings)
    if migrate:
        await migrate_app(settings, definitions, apply=True)
    running = Running()
    work = asyncio.create_task(_work(_parts(definitions, providers, settings, consumers, running)))
    block = _Block(work, running)
    try:
        yield running
    finally:
        await block.leave()


class _Block:
    """The task that is inside the block, and the one that works for it."""

    def __init__(self, work: asyncio.Task[None], running: Running) -> None:
        host = asyncio.current_task()
        assert host is not None, "a coroutine runs in a task"
        self._host, self._work, self._running = host, work, running
        self._cancels = host.cancelling()
        self._inside, self._interrupted = True, False
        work.add_done_callback(self._ended)

    def _ended(self, work: asyncio.Task[None]) -> None:
        error = None if work.cancelled() else work.exception()
        if error is not None or work.cancelled():
            self._running.end(error)  # else newer code has taken over all of it, which hinders nobody
        if self._inside and error is not None:
            self._interrupted = self._host.cancel()

    async def leave(self) -> None:
        """Return when what had begun is settled; raises what has ended it."""
        self._inside = False
        stopped = await self._stopped()
        if not self._running.ended:
            self._running.end(None)
        if self._interrupted and self._host.uncancel() > self._cancels:
            stopped = True  # somebody else has cancelled the host too
        if stopped:
            raise asyncio.CancelledError
        if not self._work.cancelled() and (error := self._work.exception()) is not None:
            raise error

    async def _stopped(self) -> bool:
        """Stop the work and wait for its end, however often the host is cancelled; whether it was, by others."""
        others = False
        with anyio.CancelScope(shield=True):
            while not self._work.done():
                self._work.cancel()
                try:
                    await asyncio.wait({self._work})
                except asyncio.CancelledError:
                    others = not self._interrupted
            if self._interrupted:  # its cancellation may not have come through yet
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
        return others


def _parts(
    definitions: Sequence[ConsumerDefinition],
    providers: Mapping[str, Any],
    settings: Settings,
    consumers: Sequence[str],
    running: Running,
) -> list[Part]:
    prepared = partial(refuse_unprepared, postgres=settings.postgres)
    parts: list[Part] = []
    if definitions:
        health = running.part()
        parts.append(partial(run, definitions, settings, prepared=prepared, health=health, signals=False))
    if providers:
        send = partial(relay.run, providers, settings, consumers=consumers, prepared=prepared)
        parts.append(partial(send, health=running.part(), signals=False))
    return parts


async def _work(parts: Sequence[Part]) -> None:
    try:
        async with anyio.create_task_group() as tasks:
            for part in parts:
                tasks.start_soon(part)
    except ExceptionGroup as group:
        raise end_reason(group) from None
