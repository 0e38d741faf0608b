"""When to try again: exponential, capped, fully jittered, never ruled by what a stranger asks for. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated

import msgspec

Seconds = Annotated[float, msgspec.Meta(gt=0, le=31_536_000, description="seconds, above 0")]

LONGEST_ASKED = 31_536_000.0
"""A Retry-After beyond a year says nothing; it is cut here before a policy clamps it further."""

_LONGEST_TEXT = 64


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often and how fast a thing is tried again, in Temporal's words.

    `initial_s` is the first interval, each later one is `coefficient` times as long, none is longer than
    `maximum_s`; `attempts` counts the first try too.
    """

    initial_s: Seconds = 0.5
    coefficient: Annotated[float, msgspec.Meta(ge=1, le=100)] = 2.0
    maximum_s: Seconds = 60.0
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 10

    def __post_init__(self) -> None:
        if self.maximum_s < self.initial_s:
            raise ValueError(f"initial_s ({self.initial_s:g}) is more than maximum_s ({self.maximum_s:g})")


def interval(policy: RetryPolicy, attempt: int) -> float:
    """Return the longest wait after attempt number `attempt` (from 1), before jitter."""
    try:
        grown = policy.initial_s * policy.coefficient ** (attempt - 1)
    except OverflowError:
        return policy.maximum_s
    return min(grown, policy.maximum_s)


def wait(policy: RetryPolicy, attempt: int, *, chance: float, asked_s: float | None = None) -> float:
    """Return the seconds until the next try after attempt number `attempt`.

    `chance` is a random number in [0, 1), drawn by the caller. Without `asked_s` the jitter is full: anything
    between nothing and the interval, so that what failed together does not return together. What the other
    side asked for is a floor for it, clamped to [initial_s, maximum_s]: nobody can make us hammer or sleep.
    """
    if asked_s is None:
        return chance * interval(policy, attempt)
    floor = min(max(asked_s, policy.initial_s), policy.maximum_s)
    return min(floor + chance * policy.initial_s, policy.maximum_s)


def exhausted(policy: RetryPolicy, attempt: int) -> bool:
    """Return whether attempt number `attempt` was the last one the policy allows."""
    return attempt >= policy.attempts


def retry_after(value: str, now: datetime) -> float | None:
    """Return the seconds a Retry-After header asks for, as a number or as an HTTP date; None when it says neither.

    Never negative, never above a year; `now` is aware.
    """
    text = value.strip()
    if not text or len(text) > _LONGEST_TEXT or not text.isascii():
        return None
    if text.isdigit():
        return min(float(text), LONGEST_ASKED)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = (moment - now).total_seconds()
    return min(max(seconds, 0.0), LONGEST_ASKED) if math.isfinite(seconds) else None
