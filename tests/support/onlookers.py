"""Readers of one view who look all the time, each in a way of its own, and a twin of each who looks at something else.

They are on a thread with an event loop of its own, so that nothing that is built or applied keeps them waiting but
PostgreSQL. A busy machine keeps both waiting: what a reader waited without its twin waiting too is what it was made to
wait.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Self

import asyncpg
import msgspec

USUAL_S = 0.05
"""What a look takes at most where nobody is in its way and the machine is at hand."""


PAUSE_S = 0.02
"""Between two looks."""


class Wait(msgspec.Struct, frozen=True):
    """From when to when something took place."""

    began: float
    ended: float


class Onlooker(msgspec.Struct):
    """One reader: whose eyes, what is looked at, how long its transactions stay open, and what it found wrong."""

    name: str
    url: str
    sql: str
    wrong: Callable[[Any, int], str | None]
    """What is wrong with the one row of the answer, after so many rows (its `n`) were seen before."""
    idle_s: float = 0.0
    since: float = 0.0
    over: float = 0.0
    """From when to when it has looked."""
    looks: int = 0
    most: int = 0
    """How many rows it has seen."""
    errors: list[str] = []
    waits: list[Wait] = []
    """Of looks that took longer than usual."""
    stalls: list[Wait] = []
    """The same of its twin."""

    def kept_waiting(self) -> float:
        """The longest that it was made to wait."""
        return max((made_to_wait(wait, self.stalls) for wait in self.waits), default=0.0)


def made_to_wait(wait: Wait, stalls: Sequence[Wait]) -> float:
    """Return what is left of a wait without the time in which the twin was kept waiting too. Pure."""
    beside = sum(max(0.0, min(wait.ended, one.ended) - max(wait.began, one.began)) for one in stalls)
    return wait.ended - wait.began - beside


class Onlookers:
    """Looks through all its onlookers' eyes inside the block."""

    def __init__(self, *onlookers: Onlooker, beside: str) -> None:
        self.onlookers = onlookers
        self._beside = beside
        """What the twins look at."""
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._watch()), name="onlookers", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "somebody still waits for a look"

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for one in self.onlookers:
                tasks.create_task(self._look(one))
                tasks.create_task(self._look_beside(one))

    async def _look(self, one: Onlooker) -> None:
        connection, one.since = await asyncpg.connect(one.url), monotonic()
        try:
            while not self._over.is_set():
                if one.idle_s:
                    async with connection.transaction(isolation="repeatable_read"):
                        before = await self._row(connection, one)
                        await asyncio.sleep(one.idle_s)
                        if await self._row(connection, one) != before:
                            one.errors.append("rows changed within a snapshot")
                else:
                    await self._row(connection, one)
                await asyncio.sleep(PAUSE_S)
        except asyncpg.PostgresError as error:
            one.errors.append(f"{type(error).__name__}: {error}")
        finally:
            one.over = monotonic()
            await connection.close()

    async def _row(self, connection: asyncpg.Connection[Any], one: Onlooker) -> Any:
        began = monotonic()
        row = await connection.fetchrow(one.sql)
        assert row is not None, "it counts"
        note(one.waits, began)
        one.looks += 1
        wrong = one.wrong(row, one.most)
        one.most = row["n"]
        if wrong is not None:
            one.errors.append(wrong)
        return row

    async def _look_beside(self, one: Onlooker) -> None:
        connection = await asyncpg.connect(one.url)
        try:
            while not self._over.is_set():
                began = monotonic()
                await connection.fetch(self._beside)
                note(one.stalls, began)
                await asyncio.sleep(PAUSE_S)
        finally:
            await connection.close()


def note(waits: list[Wait], began: float) -> None:
    """Put down what began then and has ended now, if it took longer than usual."""
    ended = monotonic()
    if ended - began > USUAL_S:
        waits.append(Wait(began, ended))
