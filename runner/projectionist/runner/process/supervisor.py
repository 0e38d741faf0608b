"""Each consumer of a process alone: what ends one leaves the others at their work.

A consumer that newer code has taken over ends for good in this process. Whatever else a worker raises is told once and
tried again, ever more rarely, while the others go on. A process of which no consumer is left ends, and says why. A
program that runs consumers beside its own work hears of the first that cannot go on: nobody restarts that one alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.error_text import said
from projectionist.core.postgres.rights import OwnerNeeded
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.core.testpoints import announce
from projectionist.core.user_errors import lasting
from projectionist.runner.batch.consumer import Superseded
from projectionist.runner.database.chores import AGAIN, ChoreFailures
from projectionist.runner.process.end_reason import end_reason
from projectionist.runner.process.problem_board import problem_of

if TYPE_CHECKING:
    from projectionist.core.retry_policy import RetryPolicy
    from projectionist.runner.process.consumer_worker import ConsumerWorker
    from projectionist.runner.process.problem_board import ProcessProblem

log = logging.getLogger("projectionist.runner")


class NoneLeft(ProjectionistError):
    """Every consumer of this process has ended or cannot begin, each for a reason of its own."""


class CannotGoOn(ProjectionistError):
    """A consumer cannot go on inside another program; what it failed of is the cause."""

    def __init__(self, name: str, error: Exception) -> None:
        if isinstance(error, ProjectionistError):
            reason, remedy = error.message, error.remedy
        else:
            reason, remedy = said(error), ""
        super().__init__(f"consumer {name!r} cannot go on: {reason}", remedy=remedy)
        self.__cause__ = error


class Supervised:
    """One consumer's worker, and what became of it."""

    def __init__(self, worker: ConsumerWorker, *, again: RetryPolicy = AGAIN) -> None:
        self.worker = worker
        self.name = worker.definition.name
        self._setbacks = ChoreFailures(self.name, again)
        self.ended: Exception | None = None
        """Why it ended in this process for good."""
        self.stuck: Exception | None = None
        """Why it cannot go on, until the next try begins."""
        self._before: Exception | None = None
        """What the last try failed of: as long as this one has come to nothing, that is still true."""

    @property
    def lost(self) -> Exception | None:
        """Return why nothing is to be hoped of it here: it has ended, or could not even begin."""
        return self.ended or (None if self.worker.begun else self.stuck)

    @property
    def trouble(self) -> str | None:
        """Return why nothing of it is applied by this process, unless newer code has taken it over."""
        if self.ended is not None:
            return None
        if self.stuck is not None:
            return f"{self.name}: {said(self.stuck)}; it is tried again"
        return self.worker.trouble

    @property
    def superseded(self) -> str | None:
        """Return that newer code has taken it over, where it has: it is applied elsewhere."""
        return None if self.ended is None else f"{self.name}: ended in this process: {said(self.ended)}"

    @property
    def setback(self) -> ProcessProblem | None:
        """Return the same for whoever asks the database; what it waits for by itself is no failure."""
        if self.ended is not None:
            return problem_of(self.name, "ended", self.ended)
        if self.stuck is None and (self.worker.serving or self.worker.paused):
            return None
        if self.stuck is None and self.worker.waits is not None:
            state = "retried" if isinstance(self.worker.waits, OwnerNeeded) else "waits"
            return problem_of(self.name, state, self.worker.waits)
        error = self.stuck or self._before
        return None if error is None else problem_of(self.name, "retried", error)

    async def run(self) -> bool:
        """Serve until told to stop; whether it was. False: it is over for good, or has just failed."""
        self.stuck, self._before = None, self.stuck
        try:
            await lasting(self.worker.run)
        except Exception as error:  # noqa: BLE001  the others are at their work, or bring theirs to an end
            self._judge(end_reason(error))
            return self.worker.stopping
        return True

    async def rest(self) -> None:
        """Wait until the next try is due, or it is told to stop."""
        assert self.stuck is not None, "it has failed"
        pause_s = self._setbacks.note(self.stuck, well_s=self.worker.well_s)
        announce("worker.stuck")
        await self.worker.pause(pause_s)

    def _judge(self, error: Exception) -> None:
        metrics.add(instruments.CONSUMER_FAILED, 1, {names.CONSUMER: self.name})
        if not isinstance(error, Superseded):
            self.stuck = error
            return
        self.ended = error
        log.error("%s: %s; it ends in this process", self.name, error)
        announce("worker.ended")


async def supervise(crew: Sequence[Supervised], *, patience_s: float | None = None) -> None:
    """Run these until they are told to stop; raises when nothing is to be hoped of any of them.

    With `patience_s` that is so when nothing is to be hoped of one; what newer code has taken over ends without an
    error, be it all of them. Where one fails, what the others have begun is brought to its end first, in so many
    seconds at most.
    """
    lost: list[Exception] = []

    async def keep(one: Supervised) -> None:
        while not await one.run():
            if patience_s is not None and one.ended is None and one.lost is not None:
                lost.append(CannotGoOn(one.name, one.lost))
                running.cancel_scope.deadline = anyio.current_time() + patience_s
                for each in crew:
                    each.worker.stop()
                return
            if patience_s is None:
                give_up(crew)
            if one.ended is not None:
                return
            await one.rest()

    async with anyio.create_task_group() as running:
        for one in crew:
            running.start_soon(keep, one)
    if lost:
        raise lost[0]
    if failed := [one.stuck for one in crew if one.stuck is not None]:
        raise end_reason(ExceptionGroup("stopping", failed))


def give_up(crew: Sequence[Supervised]) -> None:
    """Raise if nothing is to be hoped of any of these: the error itself where all have the same to say. Pure."""
    reasons = [(one.name, one.lost) for one in crew]
    errors = [error for _, error in reasons if error is not None]
    if len(errors) < len(reasons):
        return
    unknown = [error for error in errors if not isinstance(error, ProjectionistError)]
    if unknown or len({str(error) for error in errors}) == 1:
        raise [*unknown, *errors][0]
    named = "; ".join(f"{name}: {error}" for name, error in reasons)
    raise NoneLeft(f"no consumer is left to run. {named}")
