"""How many processes a consumer wants, from what waits for it and how fast it has been settled. Pure.

The broker's figures alone mislead: with `ack = "after-store"` they are zero while the inbox is full, and what is parked
was acked and is no work for anybody. So what counts is what the broker holds, delivered or not, and the backlog of the
inbox.
"""

from __future__ import annotations

import math

import msgspec

LEAST_SPAN_S = 0.5
"""Two looks that are closer to each other measure nothing."""


class ConsumerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Says how one consumer stands at a moment of the process's clock."""

    at: float
    settled: int
    """Events that were settled, over all times and processes."""
    behind: int | None
    """Events that are to be settled, at the broker and in the inbox; None where nobody tells."""
    runners: int
    halted: bool = False
    """Paused, or its breaker is open: no process of it settles anything."""


class MeasuredPace(msgspec.Struct, frozen=True):
    """Says what was measured between looks: events that came in a second, and what one busy process settles in one."""

    arriving_per_s: float = 0.0
    per_s: float | None = None


class WantedProcesses(msgspec.Struct, frozen=True, kw_only=True):
    """Says how many processes a consumer wants, and why. None: not known."""

    wanted: int | None
    running: int
    behind: int | None
    behind_s: float | None
    """Seconds in which those that run would settle what waits, if nothing came."""
    arriving_per_s: float
    per_s: float | None
    """Events that one busy process settles in a second, as measured."""


def measured(pace: MeasuredPace, before: ConsumerLoad, now: ConsumerLoad) -> MeasuredPace:
    """Return the pace after another look.

    What a process could settle shows while it is busy alone: where, at both looks, more than a second's work waited.
    """
    span_s = now.at - before.at
    if span_s < LEAST_SPAN_S or before.behind is None or now.behind is None:
        return pace
    done = max(0, now.settled - before.settled)
    arriving = max(0.0, (done + now.behind - before.behind) / span_s)
    per_s = done / span_s
    steady = before.runners == now.runners > 0 and not before.halted and not now.halted
    if not done or not steady or min(before.behind, now.behind) < per_s:
        return MeasuredPace(arriving, pace.per_s)
    of_one = per_s / now.runners
    return MeasuredPace(arriving, of_one if pace.per_s is None else (pace.per_s + of_one) / 2)


def wanted(load: ConsumerLoad, pace: MeasuredPace, *, least: int, catch_up_s: float) -> WantedProcesses:
    """Return how many processes would keep up with what comes and have what waits settled in `catch_up_s` seconds."""
    running_per_s = (pace.per_s or 0.0) * load.runners
    return WantedProcesses(
        wanted=_wanted(load, pace, least, catch_up_s),
        running=load.runners,
        behind=load.behind,
        behind_s=load.behind / running_per_s
        if load.behind and running_per_s
        else 0.0
        if load.behind == 0
        else None,
        arriving_per_s=pace.arriving_per_s,
        per_s=pace.per_s,
    )


def _wanted(load: ConsumerLoad, pace: MeasuredPace, least: int, catch_up_s: float) -> int | None:
    if load.behind is None:
        return None
    if load.halted or (
        pace.per_s is None and load.behind
    ):  # more of them would settle no more, or nobody knows yet
        return max(least, load.runners)
    if pace.per_s is None:
        return least
    return max(least, math.ceil((pace.arriving_per_s + load.behind / catch_up_s) / pace.per_s - 1e-6))
