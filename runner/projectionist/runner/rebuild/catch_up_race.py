"""Catching up is a race against live, which it has to win: whether it does, and a brake on live where it would not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING

import anyio
import asyncpg

from projectionist.core import clock
from projectionist.core.postgres import connections
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.testpoints import announce
from projectionist.runner.database.barrier import BarrierTimeout, alone, patience
from projectionist.runner.database.queries import RebuildError

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Postgres
    from projectionist.runner.history.progress import Progress

GAIN = 0.9
"""A round is smaller than those before when it has no more than this share of the smallest of them to do."""
ROUNDS = 5
"""After so many rounds that are no smaller, live is as fast."""
HELD_S = 0.1
"""How long the brake keeps batches waiting at a time."""
SHARES = (0.5, 0.75, 0.9)
"""Of the time: one after the other, for as long as live is as fast all the same."""


class BuildOutrun(RebuildError):
    """Live applies events as fast as the build catches up: it would not end."""


class CatchUpRace:
    """Is told of rounds; says how they go."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.equal = 0
        """How many rounds, one after the other, were no smaller than those before."""
        self._smallest: float = inf
        self._since = clock.now()
        self._folded = 0

    def round(self, events: int) -> None:
        """Note that a round had so many events to fold."""
        self.equal += 1
        self._folded += events
        if events <= self._smallest * GAIN:
            self.again(events)

    def again(self, smallest: float) -> None:
        """Count from here on."""
        self._smallest, self.equal, self._folded, self._since = smallest, 0, 0, clock.now()

    @property
    def per_s(self) -> float:
        """Return how many events a second were folded since rounds became no smaller."""
        return self._folded / max(clock.now() - self._since, 1e-3)

    @property
    def lost(self) -> bool:
        """Return whether it will not be won, which has been said a round before."""
        return self.equal > ROUNDS and clock.now() - self._since >= self._patience_s


class Brake:
    """Keeps a consumer's batches waiting for a share of the time, in short holds."""

    def __init__(self, postgres: Postgres, consumer: int) -> None:
        self._postgres = postgres
        self._consumer = consumer
        self.share = 0.0
        self._on = False

    @contextmanager
    def on(self) -> Iterator[None]:
        """Brake by the share inside the block."""
        self._on = True
        try:
            yield
        finally:
            self._on = False

    @asynccontextmanager
    async def at_hand(self) -> AsyncIterator[Brake]:
        """Yield a brake that can be put on inside the block."""
        with unwrap_single_exception():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._run)
                yield self
                tasks.cancel_scope.cancel()

    async def _run(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                if self._on and self.share:
                    connection = connection or await connections.connect(
                        self._postgres, application_name="slow live"
                    )
                    await self._hold(connection)
                await anyio.sleep(HELD_S * (1 - self.share) / (self.share or 1))
        finally:
            if connection is not None:
                connection.terminate()

    async def _hold(self, connection: Connection) -> None:
        with suppress(
            BarrierTimeout, asyncpg.LockNotAvailableError
        ):  # whatever batches wait for holds live up as well
            async with alone(
                connection, self._postgres.schema, self._consumer, "slow live", wait_s=patience(0)
            ):
                announce("brake.held")
                await anyio.sleep(HELD_S)


def judge(race: CatchUpRace, brake: Brake | None, consumer: str, progress: Progress) -> None:
    """Log after a round that live is as fast, brake it, or raise BuildOutrun."""
    if brake is not None and race.equal >= ROUNDS and (more := [s for s in SHARES if s > brake.share]):
        brake.share = more[0]
        progress.say(
            f"live applies as fast as this catches up: it is kept waiting {brake.share:.0%} of the time"
        )
        race.again(inf)
    elif race.lost:
        raise BuildOutrun(
            f"live applies {consumer}'s events as fast as they can be caught up, {race.per_s:.0f}/s: it would not end",
            remedy="Rebuild again when less is coming in"
            + ("" if brake is not None else ", or with --slow-live")
            + ": it goes on from here",
        )
    elif race.equal == ROUNDS:
        progress.say(
            f"live applies as fast as this catches up, {race.per_s:.0f}/s; it ends when less is coming in"
        )
