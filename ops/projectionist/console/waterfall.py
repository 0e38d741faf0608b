"""Stretches of time on one scale, and the answer to the page's question: must somebody act? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from markupsafe import Markup

from projectionist.console.charts import MINUTE, TimeScale
from projectionist.console.pages import duration
from projectionist.console.stretches import ATTEMPT, GOES_ON, Stretch, counted
from projectionist.core.states import IntentState

MOST_TOLD = 3


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One of them as it is drawn, with its times in words."""

    stretch: Stretch
    after: str
    took: str
    picture: Markup


class Waterfall(msgspec.Struct, frozen=True):
    """All of them, the first one at nought."""

    lines: list[Line]
    ticks: Markup


def elapsed(seconds: float) -> str:
    """Write a length of time to the millisecond, or to as much as can be told apart."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < MINUTE - 0.05 else duration(max(seconds, MINUTE))


def waterfall(found: Sequence[Stretch], now: datetime) -> Waterfall | None:
    """Put them on one scale, from the first that began to the last that ended or, if one goes on, to now."""
    if not found:
        return None
    zero = min(one.began for one in found)
    times = [
        (one, (one.began - zero).total_seconds(), (max(one.ended or now, one.began) - zero).total_seconds())
        for one in found
    ]
    longest = max(until for _, _, until in times)
    scale = TimeScale(longest)
    return Waterfall([_line(scale, *each) for each in times], scale.ticks(elapsed(longest)))


def _line(scale: TimeScale, one: Stretch, began_s: float, until_s: float) -> Line:
    after, took = elapsed(began_s), elapsed(until_s - began_s)
    says = f"from {after}, {'has not ended' if one.ended is None else f'took {took}'}"
    return Line(
        stretch=one,
        after=after,
        took=took if one.ended is not None else f"{took} so far",
        picture=scale.bar(began_s, until_s, "" if one.tone == "ok" else one.tone, says),
    )


class PageAnswer(msgspec.Struct, frozen=True):
    """Says whether somebody must act for what was drawn, and what went on."""

    tone: str
    fact: str
    says: str


def answer(found: Sequence[Stretch], now: datetime) -> PageAnswer:
    """Return the answer to the page's question."""
    parts = [one for one in found if 0 < one.depth < ATTEMPT]
    if not parts:
        return PageAnswer("idle", "Nothing of it waits.", "When it was applied is no longer on record.")
    waits = [one for one in parts if one.tone == "act"]
    if waits:
        return PageAnswer("act", "Somebody must act.", f"{_told(waits)}.")
    going = [one for one in parts if one.tone in GOES_ON]
    if going:
        return PageAnswer("wait", "It goes on by itself.", f"{_told(going)}.")
    settled, events = len({one.name for one in parts if one.depth == 1}), _count(found, 0)
    sent = sum(one.state == IntentState.SENT for one in parts if one.depth == 2)
    says = f"{counted(settled, 'consumer')} {'has' if settled == 1 else 'have'} settled "
    says += "it" if events == 1 else counted(events, "event")
    says += f", {counted(sent, 'intent')} {'is' if sent == 1 else 'are'} sent" if sent else ""
    slowest = max(parts, key=lambda one: _took(one, now))
    if _took(slowest, now) >= 1:
        says += f". What took longest is {slowest.name}: {elapsed(_took(slowest, now))}"
    return PageAnswer("ok", "Nobody has to act.", f"{says}.")


def _told(parts: Sequence[Stretch]) -> str:
    """Return a few of them in words, and how many more there are."""
    told = [f"{one.name}: {one.state}" for one in parts[:MOST_TOLD]]
    more = len(parts) - len(told)
    return "; ".join([*told, *([f"{more:,} more"] if more else [])])


def _took(one: Stretch, now: datetime) -> float:
    return ((one.ended or now) - one.began).total_seconds()


def _count(parts: Sequence[Stretch], depth: int) -> int:
    return sum(one.depth == depth for one in parts)
