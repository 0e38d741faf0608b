"""What a failure means for the event: try again after a delay, or wait for new code or a person. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.backoff import wait
from projectionist.core.texts import storable
from projectionist.runner.writes import Failed

if TYPE_CHECKING:
    from projectionist.core.backoff import Retry

MOST_TEXT = 2_000
MOST_STACK = 8_000


class Failing(StrEnum):
    """How an event failed, which decides whether time can mend it."""

    RAISED = "raised"
    """A pure handler raised: the same code will raise again."""
    REFUSED = "refused"
    """The handler said that this event must not be applied."""
    RETRY = "retry"
    """The handler asked to be tried again, or its own SQL failed."""
    UNREADABLE = "unreadable"
    """The body of a declared type cannot be decoded."""
    DATABASE = "database"
    """PostgreSQL refuses the values that the handler made."""
    CRASHED = "crashed"
    """Every try ended the process."""


class Refusal(msgspec.Struct, frozen=True):
    """Why an event is failed without another try."""

    kind: Failing
    text: str


def after(
    kind: Failing,
    tries: int,
    budget: int | None,
    policy: Retry,
    *,
    error_class: str,
    error: str,
    stack: str | None = None,
    asked_s: float | None = None,
    chance: float,
) -> Failed:
    """The record of one more failed try; `tries` counts those before it, `chance` is drawn by the caller."""
    attempts = tries + 1
    allowed = budget if budget is not None else policy.attempts
    again = kind is Failing.RETRY and attempts < allowed
    return Failed(
        error_class=error_class[:MOST_TEXT],
        error=storable(error)[:MOST_TEXT],
        stack=None if stack is None else storable(stack)[-MOST_STACK:],
        attempts=attempts,
        budget=allowed,
        delay=wait(policy, attempts, chance=chance, asked_s=asked_s) if again else None,
    )
