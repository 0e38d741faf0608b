"""What a failure means for the event: try again after a delay, or wait for new code or a person. Pure."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from projectionist.core.printable_text import storable
from projectionist.core.retry_policy import LONGEST_ASKED, RetryPolicy, interval, wait
from projectionist.runner.batch.writes import EventFailure

MOST_TEXT = 2_000
MOST_STACK = 8_000


class FailureReason(StrEnum):
    """Names how an event failed, which decides whether time can mend it."""

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
    ALONE = "alone"
    """What looks like the server's fault befalls this event again and again, and others go through."""
    SESSION = "session"
    """Every try ended its session with PostgreSQL, or PostgreSQL."""
    FAULT = "fault"
    """A fault of ours that this event brings out."""
    CRASHED = "crashed"
    """Every try ended the process."""


SLOWLY = frozenset({FailureReason.DATABASE, FailureReason.ALONE, FailureReason.SESSION, FailureReason.FAULT})
"""What may have been a passing state of the server or of a table, and costs more than the event alone to find out."""
MOST_SESSIONS = 3
"""An event that ends sessions is tried so often: each time may end those of all others."""
_SLOWER = 60


class Refusal(msgspec.Struct, frozen=True):
    """Says why an event is failed without another try."""

    kind: FailureReason
    text: str


def next_attempt(
    kind: FailureReason,
    tries: int,
    budget: int | None,
    policy: RetryPolicy,
    *,
    error_class: str,
    error: str,
    stack: str | None = None,
    asked_s: float | None = None,
    chance: float,
) -> EventFailure:
    """Return the record of one more failed try; `tries` counts those before it, `chance` is drawn by the caller."""
    attempts = tries + 1
    allowed = budget if budget is not None else policy.attempts
    if kind is FailureReason.SESSION and budget is None:
        allowed = min(allowed, MOST_SESSIONS)
    if kind in SLOWLY:
        policy = slow(policy)
        asked_s = interval(policy, attempts) / 2
    again = (kind is FailureReason.RETRY or kind in SLOWLY) and attempts < allowed
    return EventFailure(
        error_class=error_class[:MOST_TEXT],
        error=storable(error)[:MOST_TEXT],
        stack=None if stack is None else storable(stack)[-MOST_STACK:],
        attempts=attempts,
        budget=allowed,
        delay=wait(policy, attempts, chance=chance, asked_s=asked_s) if again else None,
    )


def slow(policy: RetryPolicy) -> RetryPolicy:
    """Return the schedule that begins where this one ends: by default after a minute, and every hour in the end."""
    most = min(policy.maximum_s * _SLOWER, LONGEST_ASKED)
    return RetryPolicy(initial_s=policy.maximum_s, coefficient=2.0, maximum_s=most, attempts=policy.attempts)
