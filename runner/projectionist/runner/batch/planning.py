"""Decides, from integers alone, what one aggregate does in one batch: what is tried, parked, or too old. Pure.

What a single version means is for `projectionist.projections.folding.version_verdict` to say; here are runs of them,
new and parked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.states import AggregateState, Cause
from projectionist.projections.folding import version_verdict as judging
from projectionist.projections.folding.version_verdict import Verdict, follows, judge

if TYPE_CHECKING:
    from projectionist.projections.compiled.class_options import Sequencing
    from projectionist.runner.decoding.delivery import Delivery

CONTIGUOUS, MONOTONIC, UNORDERED = "contiguous", "monotonic", "unordered"
_CLEAR, _GAP = AggregateState.CLEAR, Cause.GAP


class LockedPosition(judging.Position, frozen=True, gc=False):
    """The locked row of one aggregate."""

    aggregate: str = ""
    due: datetime | None = None
    is_due: bool = False
    """Whether `due` had come when the row was locked; what was listed as due may have been settled by another."""


class AggregatePlan(msgspec.Struct, gc=False):
    """Says what one aggregate does in this batch."""

    position: LockedPosition | None
    """None for an event without order: a course of its own."""
    cause: Cause
    """Why `held` waits."""
    tried: Sequence[Delivery] = ()
    """To be folded in this order; already in the order of versions."""
    held: Sequence[Delivery] = ()
    """New events that must wait, whatever becomes of `tried`."""
    stale: Sequence[Delivery] = ()
    """New events at or below the position: a late one, a version used twice, or simply old."""
    clashes: Sequence[tuple[Delivery, Delivery]] = ()
    """New events whose version another event of this batch, or a parked one, holds: (loser, holder)."""
    more: bool = False
    """Whether the drain stopped although the next event may be parked already."""
    due: bool = False
    """Whether the head's time has come."""
    lacks: bool = False
    """Whether the drain stopped at a reference, whose bytes have to be fetched first."""
    accepted: Callable[[int], int] | None = None
    """Says up to where the versions after one were once accepted as missing; None: none is passed."""
    known: int | None = None
    """Up to which version what is parked was read, where that is not all of it."""

    def reached(self, version: int) -> int:
        """Return where the aggregate stands after this version: past those behind it that were accepted as missing.

        Never past a version under which an event may be parked that nobody has read: it would lie there for ever.
        """
        if self.accepted is None:
            return version
        last = self.accepted(version)
        return last if self.known is None else max(version, min(last, self.known))


def alone(delivery: Delivery) -> AggregatePlan:
    """Return the course of an event without order."""
    return AggregatePlan(position=None, tried=[delivery], due=delivery.parked, cause=Cause.FAILED)


def put_by(delivery: Delivery) -> AggregatePlan:
    """Return the course of an event without order that is stored first."""
    return AggregatePlan(position=None, held=[delivery], cause=Cause.STORED)


def stored(position: LockedPosition, fresh: Sequence[Delivery], sequence: Sequencing) -> AggregatePlan:
    """Plan one aggregate whose new events are stored first: none is tried, and a head that can move drains next."""
    ahead, stale, clashes = _sorted_out(position, fresh, ())
    cause = Cause.GAP if position.open else Cause.BLOCKED
    if position.head in {AggregateState.CLEAR, AggregateState.DRAINING} or any(
        judge(position, _version(d), sequence) is Verdict.NEXT for d in ahead
    ):
        cause = Cause.STORED
    return AggregatePlan(position=position, held=ahead, stale=stale, clashes=clashes, cause=cause)


def may_move(position: LockedPosition, fresh: Sequence[Delivery], sequence: Sequencing, *, due: bool) -> bool:
    """Return whether parked successors have to be read: only where the head can go on in this batch."""
    if not position.parked or not _moves(position, due=due):
        return False
    return due or any(judge(position, _version(d), sequence) is Verdict.NEXT for d in fresh)


def reach(position: LockedPosition, limit: int) -> int:
    """Return how many parked events one batch tries: a failed one alone, and nothing behind it."""
    return min(limit, 1) if position.head == AggregateState.FAILED else limit


def plan_aggregate(
    position: LockedPosition,
    fresh: Sequence[Delivery],
    successors: Sequence[Delivery],
    sequence: Sequencing,
    *,
    due: bool,
    limit: int,
    lacking: int | None = None,
    accepted: Callable[[int], int] | None = None,
) -> AggregatePlan:
    """Plan one aggregate.

    `fresh` are claimed events, `successors` the first parked ones behind the head: at most `reach` of them, and
    none from version `lacking` on, which is a reference to the stream. `accepted` says up to where the versions
    after this one were once accepted as missing.
    """
    if position.head == _CLEAR and not position.parked:
        run = fresh if len(fresh) == 1 else sorted(fresh, key=_version)
        if _is_next(position.version, run):  # nearly always; what follows would say the same, and slower
            return AggregatePlan(position=position, tried=run, due=due, cause=_GAP, accepted=accepted)
    ahead, stale, clashes = _sorted_out(position, fresh, successors)
    moves = _moves(position, due=due)
    known = _known(position, successors, reach(position, limit), lacking) if position.parked else None
    tried = _run(position.version, ahead, sequence, known, accepted) if moves else []
    held = [d for d in ahead[len(tried) :] if not d.parked]
    last = _version(tried[-1]) if tried else position.version
    last = last if accepted is None else accepted(last)
    more = moves and known is not None and (last >= known or sequence == MONOTONIC)
    return AggregatePlan(
        position=position,
        tried=tried,
        held=held,
        stale=stale,
        clashes=clashes,
        more=more,
        due=due and moves,
        cause=Cause.GAP if moves or position.head == AggregateState.DRAINING else Cause.BLOCKED,
        lacks=more and lacking is not None,
        accepted=accepted if moves else None,
        known=known,
    )


def _is_next(version: int, run: Sequence[Delivery]) -> bool:
    """Return whether each of these has the version after the one before it."""
    for delivery in run:
        version += 1
        if delivery.version != version:
            return False
    return True


def _moves(position: LockedPosition, *, due: bool) -> bool:
    """Return whether the next event in order is applied now: a head that failed or drains moves only when due."""
    return position.open or (due and position.head in {AggregateState.FAILED, AggregateState.DRAINING})


def _known(
    position: LockedPosition, successors: Sequence[Delivery], limit: int, lacking: int | None
) -> int | None:
    """Return the version up to which it is known what is parked; None: all of it. Nothing beyond may be tried."""
    if lacking is not None:
        return lacking - 1
    if len(successors) < limit:
        return None
    return _version(successors[-1]) if successors else position.version + 1


def _sorted_out(
    position: LockedPosition, fresh: Sequence[Delivery], successors: Sequence[Delivery]
) -> tuple[list[Delivery], list[Delivery], list[tuple[Delivery, Delivery]]]:
    holders: dict[int, Delivery] = {_version(d): d for d in successors}
    stale: list[Delivery] = []
    clashes: list[tuple[Delivery, Delivery]] = []
    for delivery in sorted(fresh, key=lambda d: d.seq) if len(fresh) > 1 else fresh:
        version = _version(delivery)
        if version <= position.version:  # `judge` says STALE, for all versions at once
            stale.append(delivery)
        elif (holder := holders.setdefault(version, delivery)) is not delivery:
            clashes.append((delivery, holder))
    return [holders[version] for version in sorted(holders)], stale, clashes


def _run(
    last: int,
    ahead: Iterable[Delivery],
    sequence: Sequencing,
    known: int | None,
    accepted: Callable[[int], int] | None,
) -> list[Delivery]:
    run: list[Delivery] = []
    for delivery in ahead:
        version = _version(delivery)
        if known is not None and version > known:
            break
        # An event of an accepted version, which came after all, is in its turn: it is stepped over.
        if not follows(version, last, sequence) and (accepted is None or version > accepted(last) + 1):
            break
        run.append(delivery)
        last = version
    return run


def _version(delivery: Delivery) -> int:
    if delivery.version is None:
        raise ValueError("reading lets no event without a version into an ordered sequence")
    return delivery.version
