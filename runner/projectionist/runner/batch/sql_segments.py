"""Which events of a batch own SQL is tried with at once: all of them, until something fails. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from projectionist.projections.folding.step import Step
    from projectionist.runner.decoding.delivery import Delivery

MOST_FAILURES = 32
"""After so many segments of a batch have failed the events that are left are run one by one: where most fail, what is
tried together and undone costs more than it saves."""


class SqlEvent(NamedTuple):
    """One event before its handler."""

    course: int
    """The index of its course, which stops where one of its events fails."""
    delivery: Delivery
    step: Step


Segment = list[SqlEvent]


class Segments:
    """What is left of a batch, in fold order: a failed segment was undone, and is tried in parts before what follows.

    So each segment runs on what those before it have left, as each event would on its own.
    """

    def __init__(self, events: Segment, apart: Container[str] = (), *, singly: bool = False) -> None:
        """Begin with all; `apart`: the names of handlers whose events are always run alone; `singly`: all are."""
        self._left = deque([[one] for one in events] if singly else [events])
        self._apart = apart
        self._stopped: set[int] = set()
        self._failures = 0

    def following(self) -> Segment:
        """Return the events to be tried next, none of a course that has stopped; empty where nothing is left."""
        while self._left:
            segment = [one for one in self._left.popleft() if one.course not in self._stopped]
            end = next((at for at, one in enumerate(segment) if one.step.handler.name in self._apart), None)
            if end is not None and len(segment) > 1:
                self._left.appendleft(segment[end or 1 :])
                segment = segment[: end or 1]
            if segment:
                return segment
        return []

    def split(self, segment: Segment, blamed: range) -> None:
        """Have a segment that failed tried in parts; `blamed`: the places in it of what may have failed it. Without
        any it is tried as it was, since something else will be done about it."""
        if not blamed:
            self._left.appendleft(segment)
            return
        self._failures += 1
        singly = self._failures >= MOST_FAILURES
        self._left.extendleft(reversed([[one] for one in segment] if singly else parts(segment, blamed)))

    def stop(self, course: int) -> None:
        """Leave out what is left of a course: one of its events has failed."""
        self._stopped.add(course)


def parts(segment: Sequence[SqlEvent], blamed: range) -> list[Segment]:
    """Return what stands before those to blame, them, and what stands behind; halves where they are all there is."""
    cuts = [blamed.start, blamed.stop] if len(blamed) < len(segment) else [len(segment) // 2]
    ends = [0, *cuts, len(segment)]
    found = [list(segment[one:other]) for one, other in pairwise(ends)]
    return [part for part in found if part]


def runs(segment: Segment) -> list[tuple[int, Segment]]:
    """Return the events of each call of a handler, with the place of the first: those of `@on_batch` as they follow
    each other, and each of the others."""
    found: list[tuple[int, Segment]] = []
    for place, one in enumerate(segment):
        handler = one.step.handler
        if handler.batch and found and found[-1][1][-1].step.handler.name == handler.name:
            found[-1][1].append(one)
        else:
            found.append((place, [one]))
    return found


def waves(run: Segment) -> list[Segment]:
    """Return a run in parts that have one event of an aggregate at most: its first of each, its second of each …"""
    found: list[Segment] = []
    seen: Counter[str] = Counter()
    for one in run:
        aggregate = one.delivery.aggregate
        wave = 0 if aggregate is None else seen[aggregate]
        if aggregate is not None:
            seen[aggregate] += 1
        if wave == len(found):
            found.append([])
        found[wave].append(one)
    return found
