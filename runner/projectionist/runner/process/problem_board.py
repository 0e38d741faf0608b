"""What a process cannot do at the moment, written where any command can read it, once a change."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.error_text import said
from projectionist.core.postgres.statements import Statements
from projectionist.core.printable_text import storable
from projectionist.core.testpoints import announce
from projectionist.runner.consumers.registry import INSTANCE
from projectionist.runner.database.chores import Chore

if TYPE_CHECKING:
    from projectionist.runner.database.chores import FailureBook
    from projectionist.runner.process.database_access import DatabaseAccess

VALID_S = 60.0
"""For how long what is told is taken for true, if its process does not tell it anew: it may be gone."""
LOOKED_S = 1.0
TEXT = 2_000
LOG = "See its log for where that happened"


class ProcessProblem(msgspec.Struct, frozen=True):
    """One thing that a process cannot do; `what` is a chore, or empty for the consumer itself."""

    consumer: str
    what: str
    state: str
    reason: str
    remedy: str


def problem_of(consumer: str, state: str, error: Exception, what: str = "") -> ProcessProblem:
    """Return what is told of this error. Pure."""
    if isinstance(error, ProjectionistError):
        reason, remedy = error.message, error.remedy
    else:
        reason, remedy = said(error), LOG
    return ProcessProblem(consumer, what, state, storable(reason[:TEXT]), storable(remedy[:TEXT]))


def failing(book: FailureBook) -> list[ProcessProblem]:
    """Return the chores that fail again and again. Pure."""
    return [problem_of(one.consumer, "failing", one.error, one.what) for one in book.failing()]


class ProblemBoard:
    """Tells what this process cannot do until it is cancelled, and takes all of it back then."""

    def __init__(
        self, access: DatabaseAccess, schema: str, look: Callable[[], Iterable[ProcessProblem]]
    ) -> None:
        self._access = access
        self._look = look
        self._upsert = Statements("projectionist.runner", schema)["upsert_process_problems"]
        self._written: list[ProcessProblem] | None = []
        """Holds what the table says of this process; None while a statement about that is not answered."""
        self._repeat_at = 0.0

    async def run(self) -> None:
        """Look every second; a server that is away says enough by itself."""
        chore = Chore("recording problems", self.step)
        try:
            while True:
                await chore.step()
                await anyio.sleep(LOOKED_S)
        finally:
            with anyio.move_on_after(2, shield=True):
                self._look = tuple
                await chore.step()

    async def step(self) -> None:
        """Write what has changed, and now and then that nothing has."""
        found = sorted(self._look(), key=lambda one: (one.consumer, one.what))
        if found != self._written or (found and clock.now() >= self._repeat_at):
            await self._write(found)

    async def _write(self, found: Sequence[ProcessProblem]) -> None:
        self._written = None  # a statement that is cut off may have been carried out
        columns = zip(*map(msgspec.structs.astuple, found), strict=True) if found else [()] * 5
        async with self._access.at_once() as connection:
            await connection.execute(
                self._upsert,
                INSTANCE,
                socket.gethostname(),
                os.getpid(),
                VALID_S,
                *map(list, columns),
            )
        self._written, self._repeat_at = list(found), clock.now() + VALID_S / 2
        announce("problems.written")
