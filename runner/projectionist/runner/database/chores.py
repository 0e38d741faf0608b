"""What fails and is tried again, ever more rarely: nothing of it ends the process, and nothing of it is told twice."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import msgspec

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.error_class import ErrorClass, classify, is_transient
from projectionist.core.postgres.error_text import said
from projectionist.core.retry_policy import RetryPolicy, interval
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.core.testpoints import announce
from projectionist.core.user_errors import lasting
from projectionist.runner.jetstream.api import BrokerError

log = logging.getLogger("projectionist.runner")

AGAIN = RetryPolicy(initial_s=1.0, maximum_s=60.0)
TOLD_FROM = 3
"""What has failed so often in a row fails again and again."""
QUIET_S = 2 * AGAIN.maximum_s
"""What goes on for ever is well when it has not failed for so long: nothing else tells."""


T = TypeVar("T")


class FailedChore(msgspec.Struct, frozen=True):
    """Says what a chore failed of the last time, and how often it has in a row."""

    consumer: str
    what: str
    error: Exception
    many: int
    at: float


class FailureBook:
    """The chores of this process that have failed and not gone well since."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, str], FailedChore] = {}

    def note(self, failed: FailedChore) -> None:
        """Write it down, over what is there of the same chore."""
        self._pages[failed.consumer, failed.what] = failed

    def over(self, consumer: str, what: str) -> None:
        """Note that the chore has gone well, or is done no more."""
        self._pages.pop((consumer, what), None)

    def failing(self) -> list[FailedChore]:
        """Return those that fail again and again, and have not been quiet for longer than they would wait."""
        since = clock.now() - QUIET_S
        return [one for one in self._pages.values() if one.many >= TOLD_FROM and one.at >= since]


class ChoreFailures:
    """The failures of one thing in a row, by what it is called in the log; a chore's are kept in the process's book."""

    def __init__(
        self, what: str, again: RetryPolicy = AGAIN, *, consumer: str = "", book: FailureBook | None = None
    ) -> None:
        self._what = f"{consumer}: {what}" if consumer else what
        self._page = (consumer, what)
        self._book = book
        self._again = again
        self._many = 0
        self._logged = ""

    def note(self, error: Exception, *, well_s: float = 0.0) -> float:
        """Return the seconds to wait before the next try; `well_s`: for how long the one that failed now had gone
        well."""
        if well_s > self._again.maximum_s:
            self.over()
        self._many += 1
        text = said(error)
        if text != self._logged:
            self._logged = text
            known = isinstance(error, ProjectionistError)
            log.error("%s: %s; it is tried again", self._what, text, exc_info=None if known else error)
        if self._book is not None:
            self._book.note(FailedChore(*self._page, error, self._many, clock.now()))
        announce("setbacks.noted")
        return interval(self._again, self._many) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter

    def over(self) -> None:
        """Note that it has gone well: the next failure is logged as new, and tried again soon."""
        self._many, self._logged = 0, ""
        if self._book is not None:
            self._book.over(*self._page)


class Chore:
    """Something done now and then beside the work. An outage is told by the gate; what else fails is told here.

    `verdicts` are no failures but what it has to say about the work: they are raised.
    """

    def __init__(
        self,
        what: str,
        do: Callable[[], Awaitable[None]],
        again: RetryPolicy = AGAIN,
        verdicts: tuple[type[Exception], ...] = (),
        *,
        consumer: str = "",
        book: FailureBook | None = None,
    ) -> None:
        self._do = do
        self._verdicts = verdicts
        self._what = f"{consumer}: {what}" if consumer else what
        self._setbacks = ChoreFailures(what, again, consumer=consumer, book=book)
        self._not_before = 0.0

    async def step(self) -> None:
        """Do it, unless it has failed a moment ago; raises nothing but verdicts."""
        if clock.now() < self._not_before:
            return
        try:
            await lasting(self._do)
        except Exception as error:  # nothing that is done beside the work may end it by failing
            if passes(error):
                log.debug("%s: %s", self._what, error)
                return
            if isinstance(error, self._verdicts):
                raise
            missed(self._what)
            self._not_before = clock.now() + self._setbacks.note(error)
        else:
            self._setbacks.over()

    def over(self) -> None:
        """Forget it: it is done no more."""
        self._setbacks.over()


class OptionalSteps:
    """Steps of one consumer's work that go without what another one of them is to find."""

    def __init__(self, consumer: str, book: FailureBook) -> None:
        self._consumer, self._book = consumer, book
        self._setbacks: dict[str, ChoreFailures] = {}

    async def result(self, step: Awaitable[T], otherwise: T, what: str) -> T:
        """Return what the step finds, or `otherwise` where its own fault is in its way, which time may not mend."""
        noted = ChoreFailures(what, consumer=self._consumer, book=self._book)
        setbacks = self._setbacks.setdefault(what, noted)
        try:
            found = await step
        except Exception as error:  # an outage is everybody's, and a verdict is about the consumer
            if isinstance(error, ProjectionistError) or classify(error) is ErrorClass.INFRASTRUCTURE:
                raise
            missed(what)
            setbacks.note(error)
            return otherwise
        setbacks.over()
        return found


async def kept(
    what: str,
    run: Callable[[], Awaitable[None]],
    book: FailureBook | None = None,
    *,
    again: RetryPolicy = AGAIN,
) -> None:
    """Run what goes on until it is cancelled, and run it again if it fails; returns if it does."""
    setbacks = ChoreFailures(what, again, book=book)
    while True:
        began = clock.now()
        try:
            return await lasting(run)
        except Exception as error:  # noqa: BLE001  nothing that is done beside the work may end it
            missed(what)
            pause_s = setbacks.note(error, well_s=clock.now() - began)
        await anyio.sleep(pause_s)


def missed(what: str) -> None:
    """Count that something beside the work was not done."""
    metrics.add(instruments.CHORES_FAILED, 1, {names.WHAT: what})


def passes(error: Exception) -> bool:
    """Return whether time mends it: a server that is away, which others tell of."""
    return isinstance(error, BrokerError) or is_transient(error)
