"""Carries out beside the pages what takes longer than a page may: on a thread and an event loop of its own.

What is begun here ends with the console. A rebuild goes on where it stood when somebody begins it again, here or by
the command line.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from projectionist.core.background_thread import STOPPING_S, BackgroundThread
from projectionist.core.operator import NotThere
from projectionist.core.postgres.error_text import said
from projectionist.runner.history.progress import Logged, Watched

if TYPE_CHECKING:
    from projectionist.core.operator import Act

log = logging.getLogger("projectionist.console")

MOST = 8
"""So many go on at once: each takes a thread, connections, and its share of the processor."""

Do = Callable[[Watched], Awaitable[object]]
"""Does it, and tells how it goes."""


class BackgroundWork:
    """One thing that somebody has begun: how far it is, and what came of it."""

    def __init__(self, kind: str, consumer: str, act: Act, do: Do, owner: str = "") -> None:
        self.kind, self.consumer, self.act = kind, consumer, act
        self.owner = owner
        """The name by which servers know it, if they do."""
        self.began = datetime.now(UTC)
        self.ended: datetime | None = None
        self.progress = Watched(Logged(consumer))
        self.result: object = None
        self.failure: BaseException | None = None
        self._do = do
        self._thread: BackgroundThread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = BackgroundThread(f"{self.kind} of {self.consumer}", self._work)
        self._thread.start()

    async def stop(self, within_s: float = STOPPING_S) -> bool:
        """Have it end where it stands; return whether it has, within some seconds."""
        return self._thread is None or await self._thread.stop(within_s)

    @property
    def is_running(self) -> bool:
        """Return whether it goes on."""
        return self.ended is None

    @property
    def problem(self) -> str:
        """Return why it has failed, without content; "" if it has not."""
        return "" if self.failure is None else said(self.failure)

    async def _work(self, ending: asyncio.Event) -> None:
        doing = asyncio.ensure_future(self._do(self.progress))
        waiting = asyncio.create_task(ending.wait())
        try:
            await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
            doing.cancel()
            self.result = await doing
        except asyncio.CancelledError:
            self.failure = NotThere("it was stopped", remedy="Begin it again")
        except Exception as error:  # noqa: BLE001 - whoever looks at the page is to see it
            self.failure = error
            log.warning("%s of %s has failed: %s", self.kind, self.consumer, said(error))
        finally:
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            self.ended = datetime.now(UTC)


class BackgroundWorks:
    """Keeps what this console has begun; of each kind the last for each consumer."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], BackgroundWork] = {}

    def of(self, kind: str, consumer: str) -> BackgroundWork | None:
        """Return the last of a kind for a consumer."""
        return self._kept.get((kind, consumer))

    def begin(self, kind: str, consumer: str, act: Act, do: Do, owner: str = "") -> BackgroundWork:
        """Begin it; raise NotThere while the same goes on already, or as many as there may be."""
        running = [one for one in self._kept.values() if one.is_running]
        if any((one.kind, one.consumer) == (kind, consumer) for one in running):
            raise NotThere(f"the {kind} of {consumer} goes on already", remedy="See how far it is")
        if len(running) >= MOST:
            raise NotThere(f"{MOST} things go on already", remedy="Wait for one, or take the command line")
        begun = self._kept[kind, consumer] = BackgroundWork(kind, consumer, act, do, owner)
        begun.start()
        return begun

    async def stop(self) -> None:
        """Have all that goes on end where it stands, at once: the console ends."""
        await asyncio.gather(*(one.stop() for one in self._kept.values() if one.is_running))

    def forget_ended(self, kind: str) -> None:
        """Keep nothing of a kind but what goes on: what came of it stands elsewhere."""
        for key in [key for key, one in self._kept.items() if key[0] == kind and not one.is_running]:
            del self._kept[key]

    def forget(self, kind: str, consumer: str) -> None:
        """Keep no more what came of it: somebody has decided otherwise."""
        self._kept.pop((kind, consumer), None)
