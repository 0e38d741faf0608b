"""Turns what was tried into what is written: the state of each event, and where each aggregate stands. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.states import Cause, Entry, Head
from projectionist.runner.writes import Failed, Moved, Parked, Writes

if TYPE_CHECKING:
    from projectionist.runner.course import Course, Position
    from projectionist.runner.delivery import Delivery


AGAIN = 10
"""By how much longer than at first a gap is left alone that has been looked into."""


class Broken(msgspec.Struct):
    """The event at which an aggregate's run stopped."""

    at: int
    """Its index in the course's `tried`."""
    failed: Failed


def close(course: Course, broken: Broken | None, writes: Writes, *, grace: float) -> None:
    """Add one aggregate's outcome to the writes; `grace` is how long a new gap is left alone, in seconds."""
    applied = course.tried if broken is None else course.tried[: broken.at]
    drained = _complete(applied, writes)
    added = _hold(course.held, course.cause, writes)
    if broken is not None:
        added += _break(course.tried[broken.at], broken.failed, writes, ordered=course.position is not None)
        rest = [d for d in course.tried[broken.at + 1 :] if not d.parked]
        added += _hold(rest, Cause.BLOCKED, writes)
    if course.position is not None and (applied or added or broken is not None or course.due):
        writes.moved.append(_moved(course.position, course, broken, applied, added - drained, grace))


def _complete(applied: Sequence[Delivery], writes: Writes) -> int:
    drained = [d for d in applied if d.parked]
    for delivery in drained:
        writes.unparked.append(delivery)
        writes.settle(delivery, delivery.provisional, None)
    for delivery in applied:
        writes.counts[delivery.type, delivery.provisional] += 1
    return len(drained)


def _hold(waiting: Sequence[Delivery], cause: Cause, writes: Writes) -> int:
    for delivery in waiting:
        park(delivery, cause, Failed(), writes)
    return len(waiting)


def _break(delivery: Delivery, failed: Failed, writes: Writes, *, ordered: bool) -> int:
    writes.counts[delivery.type, "failed"] += 1
    if delivery.parked:
        writes.failed_again.append((delivery, failed))
        return 0
    park(delivery, Cause.FAILED, failed, writes, ordered=ordered)
    return 1


def park(delivery: Delivery, cause: Cause, failed: Failed, writes: Writes, *, ordered: bool = True) -> None:
    """Park a claimed event."""
    writes.parked.append(Parked(delivery, cause, ordered, failed))
    writes.settle(delivery, Entry.PARKED, _VERDICTS[cause])
    writes.counts[delivery.type, f"parked_{cause}"] += 1


_VERDICTS = {Cause.GAP: "gap", Cause.BLOCKED: "blocked", Cause.FAILED: "next", Cause.STORED: "next"}


def _moved(
    before: Position,
    course: Course,
    broken: Broken | None,
    applied: Sequence[Delivery],
    change: int,
    grace: float,
) -> Moved:
    last = applied[-1] if applied else None
    moved = Moved(
        before.aggregate,
        before.version if last is None or last.version is None else last.version,
        Head.CLEAR,
        before.parked + change,
        seq=None if last is None else last.seq,
    )
    if broken is not None:
        moved.head = Head.WAITING if broken.failed.delay is None else Head.FAILED
        moved.delay = broken.failed.delay
    elif not applied and before.head in {Head.FAILED, Head.WAITING, Head.DRAINING} and not course.due:
        moved.head, moved.due = Head(before.head), before.due
    elif moved.parked and course.more:
        moved.head, moved.delay = Head.DRAINING, 0.0
    elif moved.parked:
        moved.head, moved.delay = Head.GAP, grace
        if before.head == Head.GAP and not applied:
            moved.delay, moved.due = (grace * AGAIN, None) if course.due else (None, before.due)
    return moved
