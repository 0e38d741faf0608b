"""What fails and is tried again, ever more rarely: nothing of it ends the process, and nothing of it is told twice."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable

import anyio

from projectionist.core import clock
from projectionist.core.backoff import Retry, interval
from projectionist.core.errors import ProjectionistError
from projectionist.core.signals import announce
from projectionist.core.telemetry import meters, names
from projectionist.core.trouble import is_transient
from projectionist.runner.jetstream import BrokerError

log = logging.getLogger("projectionist.runner")

AGAIN = Retry(initial_s=1.0, maximum_s=60.0)


class Setbacks:
    """The failures of one thing in a row, by what it is called in the log."""

    def __init__(self, what: str, again: Retry = AGAIN) -> None:
        self._what = what
        self._again = again
        self._many = 0
        self._told = ""

    def note(self, error: Exception, *, well_s: float = 0.0) -> float:
        """Seconds to wait before the next try; `well_s`: for how long the one that failed now had gone well."""
        if well_s > self._again.maximum_s:
            self.over()
        self._many += 1
        text = said(error)
        if text != self._told:
            self._told = text
            known = isinstance(error, ProjectionistError)
            log.error("%s: %s; it is tried again", self._what, text, exc_info=None if known else error)
        announce("setbacks.noted")
        return interval(self._again, self._many) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter

    def over(self) -> None:
        """It has gone well: what comes is told anew, and tried again soon."""
        self._many, self._told = 0, ""


class Chore:
    """Something done now and then beside the work. An outage is told by the gate; what else fails is told here.

    `verdicts` are no failures but what it has to say about the work: they are raised.
    """

    def __init__(
        self,
        what: str,
        do: Callable[[], Awaitable[None]],
        again: Retry = AGAIN,
        verdicts: tuple[type[Exception], ...] = (),
    ) -> None:
        self._do = do
        self._verdicts = verdicts
        self._what = what
        self._setbacks = Setbacks(what, again)
        self._not_before = 0.0

    async def step(self) -> None:
        """Do it, unless it has failed a moment ago; raises nothing but verdicts."""
        if clock.now() < self._not_before:
            return
        try:
            await self._do()
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


async def kept(what: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run what goes on until it is cancelled, and run it again if it fails; returns if it does."""
    setbacks = Setbacks(what)
    while True:
        began = clock.now()
        try:
            return await run()
        except Exception as error:  # noqa: BLE001  nothing that is done beside the work may end it
            missed(what)
            pause_s = setbacks.note(error, well_s=clock.now() - began)
        await anyio.sleep(pause_s)


def missed(what: str) -> None:
    """Count that something beside the work was not done."""
    meters.add(names.CHORES_FAILED, 1, {names.WHAT: what})


def passes(error: Exception) -> bool:
    """Whether time mends it: a server that is away, which others tell of."""
    return isinstance(error, BrokerError) or is_transient(error)


def said(error: BaseException) -> str:
    """An error in a line: ours are sentences, others need their class."""
    return str(error) if isinstance(error, ProjectionistError) else f"{type(error).__name__}: {error}"
