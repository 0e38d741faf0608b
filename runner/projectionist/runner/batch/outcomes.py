"""Turns what was tried into what is written: the state of each event, and where each aggregate stands. Pure."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.states import AggregateState, Cause, InboxState
from projectionist.projections.folding.version_verdict import Verdict
from projectionist.runner.batch.writes import BatchWrites, EventFailure, ParkedEvent, PositionUpdate

if TYPE_CHECKING:
    from projectionist.projections.folding.version_verdict import Position
    from projectionist.runner.batch.planning import AggregatePlan, LockedPosition
    from projectionist.runner.decoding.delivery import Delivery


_CLEAR = AggregateState.CLEAR
REFETCH_S = 1.0
"""How long a head waits whose bytes the broker could not be asked for."""


class FailedAt(msgspec.Struct):
    """The event at which an aggregate's run stopped."""

    at: int
    """Its index in the course's `tried`."""
    failed: EventFailure


def record_outcome(
    course: AggregatePlan,
    broken: FailedAt | None,
    writes: BatchWrites,
    *,
    grace: float,
    keep: int = sys.maxsize,
) -> None:
    """Add one aggregate's outcome to the writes.

    `grace` is how long a new gap is left alone, in seconds; `keep`, how many parked events of one aggregate keep
    their bytes: those beyond are references to the stream.
    """
    applied = course.tried if broken is None else course.tried[: broken.at]
    if (
        broken is None
        and applied
        and not course.held
        and (position := course.position)
        and not position.parked
    ):
        _count(applied, writes)  # nearly always: nothing was parked, and nothing is
        last = applied[-1]
        writes.moved.append(
            PositionUpdate(
                aggregate=position.aggregate,
                version=course.reached(last.version or 0),
                head=_CLEAR,
                parked=0,
                seq=last.seq,
            )
        )
        return
    drained = _complete(applied, writes)
    before, begun = course.position, len(writes.parked)
    if broken is not None:
        _break(course.tried[broken.at], broken.failed, writes, ordered=before is not None)
        _hold([d for d in course.tried[broken.at + 1 :] if not d.parked], Cause.BLOCKED, writes)
    _hold(course.held, course.cause, writes, ordered=before is not None)
    added = writes.parked[begun:]
    if before is not None and (applied or added or broken is not None or course.due):
        _refer(added, keep - before.parked + drained)
        moved = _moved(before, course, broken, applied, len(added) - drained, grace)
        writes.moved.append(moved)
        writes.held.append((before, moved))


def _complete(applied: Sequence[Delivery], writes: BatchWrites) -> int:
    drained = [d for d in applied if d.parked]
    for delivery in drained:
        writes.unparked.append(delivery)
        writes.settle(delivery, delivery.provisional, None)
    _count(applied, writes)
    return len(drained)


def _count(applied: Sequence[Delivery], writes: BatchWrites) -> None:
    counts = writes.counts
    for delivery in applied:
        counts[delivery.type, delivery.provisional] += 1
    if writes.sources:
        writes.by_source.update(
            (d.type, d.provisional, d.source) for d in applied if d.source in writes.sources
        )


def _hold(waiting: Sequence[Delivery], cause: Cause, writes: BatchWrites, *, ordered: bool = True) -> None:
    for delivery in waiting:
        # Without order nothing but its own time calls it up again, and that is now.
        _park(
            delivery, cause, EventFailure() if ordered else EventFailure(delay=0.0), writes, ordered=ordered
        )


def _break(delivery: Delivery, failed: EventFailure, writes: BatchWrites, *, ordered: bool) -> None:
    writes.count(delivery, "failed")
    if delivery.parked:
        writes.failed_again.append((delivery, failed))
    else:
        _park(delivery, Cause.FAILED, failed, writes, ordered=ordered)


def _park(
    delivery: Delivery, cause: Cause, failed: EventFailure, writes: BatchWrites, *, ordered: bool
) -> None:
    writes.parked.append(ParkedEvent(delivery, cause, ordered, failed))
    writes.settle(delivery, InboxState.PARKED, _VERDICTS[cause])
    writes.count(delivery, f"parked_{cause}")


def _refer(added: Sequence[ParkedEvent], room: int) -> None:
    """Leave the bytes of what exceeds the aggregate's room in the stream; what failed or is stored keeps its own."""
    for one in added[max(room, 0) :]:
        one.is_reference = one.cause in {Cause.GAP, Cause.BLOCKED} and one.delivery.released is None


def held_changes(
    held: Iterable[tuple[Position, PositionUpdate]],
) -> dict[AggregateState, tuple[int, int]]:
    """Return by how many aggregates, and events parked for them, each state of a head has grown, or shrunk."""
    aggregates, events = Counter[AggregateState](), Counter[AggregateState]()
    for before, after in held:
        for one, sign in ((before, -1), (after, 1)):
            if one.head != _CLEAR:
                aggregates[one.head] += sign
                events[one.head] += sign * one.parked
    return {head: (aggregates[head], events[head]) for head in aggregates if aggregates[head] or events[head]}


_STANDING = frozenset({AggregateState.FAILED, AggregateState.WAITING, AggregateState.DRAINING})
_VERDICTS = {
    Cause.GAP: Verdict.GAP,
    Cause.BLOCKED: Verdict.BLOCKED,
    Cause.FAILED: Verdict.NEXT,
    Cause.STORED: Verdict.NEXT,
}


def _moved(
    before: LockedPosition,
    course: AggregatePlan,
    broken: FailedAt | None,
    applied: Sequence[Delivery],
    change: int,
    grace: float,
) -> PositionUpdate:
    last = applied[-1] if applied else None
    moved = PositionUpdate(
        aggregate=before.aggregate,
        version=course.reached(before.version if last is None or last.version is None else last.version),
        head=AggregateState.CLEAR,
        parked=before.parked + change,
        seq=None if last is None else last.seq,
    )
    if course.cause is Cause.STORED:
        moved.head, moved.delay = AggregateState.DRAINING, 0.0
    elif broken is not None:
        moved.head = AggregateState.WAITING if broken.failed.delay is None else AggregateState.FAILED
        moved.delay = broken.failed.delay
    elif not applied and before.head in _STANDING and not course.due:
        moved.head, moved.due, moved.finding = AggregateState(before.head), before.due, before.finding
    elif not applied and course.lacks and before.head in _STANDING:
        moved.head, moved.delay = AggregateState(before.head), REFETCH_S
    elif moved.parked and course.more:
        moved.head, moved.delay = AggregateState.DRAINING, 0.0
    elif moved.parked:
        moved.head, moved.delay = AggregateState.GAP, grace
        if before.head == AggregateState.GAP and not applied and not course.due:
            moved.delay, moved.due = None, before.due
    return moved
