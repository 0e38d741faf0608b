"""Decides, from integers alone, what one aggregate does in one batch: what is tried, parked, or too old. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.states import Cause, Head

if TYPE_CHECKING:
    from projectionist.runner.delivery import Delivery

CONTIGUOUS, MONOTONIC, UNORDERED = "contiguous", "monotonic", "unordered"


class Position(msgspec.Struct, gc=False):
    """The locked row of one aggregate."""

    aggregate: str
    version: int
    head: str
    finding: str | None
    parked: int
    due: datetime | None
    is_due: bool = False
    """Whether `due` had come when the row was locked; what was listed as due may have been settled by another."""


class Course(msgspec.Struct):
    """What one aggregate does in this batch."""

    position: Position | None
    """None for an event without order: a course of its own."""
    tried: list[Delivery]
    """To be folded in this order; already in the order of versions."""
    held: list[Delivery]
    """New events that must wait, whatever becomes of `tried`."""
    stale: list[Delivery]
    """New events at or below the position: a late one, a version used twice, or simply old."""
    clashes: list[tuple[Delivery, Delivery]]
    """New events whose version another event of this batch, or a parked one, holds: (loser, holder)."""
    more: bool
    """Whether the drain stopped at its limit, so that the next event may be parked already."""
    due: bool
    """Whether the head's time has come."""
    cause: Cause
    """Why `held` waits."""


def alone(delivery: Delivery) -> Course:
    """The course of an event without order."""
    return Course(None, [delivery], [], [], [], more=False, due=delivery.parked, cause=Cause.FAILED)


def may_move(position: Position, fresh: Sequence[Delivery], sequence: str, *, due: bool) -> bool:
    """Whether parked successors have to be read: only where the head can go on in this batch."""
    if not position.parked or not _open(position, due=due):
        return False
    return due or any(d.version == position.version + 1 for d in fresh) or sequence == MONOTONIC


def course(
    position: Position,
    fresh: Sequence[Delivery],
    successors: Sequence[Delivery],
    sequence: str,
    *,
    due: bool,
    limit: int,
) -> Course:
    """Plan one aggregate: `fresh` are claimed events, `successors` at most `limit` parked ones behind the head."""
    ahead, stale, clashes = _sorted_out(position, fresh, successors)
    is_open = _open(position, due=due)
    tried = _run(position.version, ahead, sequence) if is_open else []
    parked = {d.seq for d in successors}
    held = [d for d in ahead[len(tried) :] if d.seq not in parked]
    more = is_open and len(successors) >= limit and (not successors or successors[-1] in tried[-1:])
    return Course(
        position,
        tried,
        held,
        stale,
        clashes,
        more,
        due and is_open,
        Cause.GAP if is_open else _closed(position),
    )


def _open(position: Position, *, due: bool) -> bool:
    """Whether the next event in order would be applied: heads that failed or drain move only when due."""
    match position.head:
        case Head.FAILED | Head.DRAINING:
            return due
        case Head.WAITING:
            return position.finding is not None
        case _:
            return True


def _closed(position: Position) -> Cause:
    return Cause.GAP if position.head == Head.DRAINING else Cause.BLOCKED


def _sorted_out(
    position: Position, fresh: Sequence[Delivery], successors: Sequence[Delivery]
) -> tuple[list[Delivery], list[Delivery], list[tuple[Delivery, Delivery]]]:
    holders: dict[int, Delivery] = {_version(d): d for d in successors}
    stale: list[Delivery] = []
    clashes: list[tuple[Delivery, Delivery]] = []
    for delivery in sorted(fresh, key=lambda d: d.seq) if len(fresh) > 1 else fresh:
        version = _version(delivery)
        if version <= position.version:
            stale.append(delivery)
        elif (holder := holders.setdefault(version, delivery)) is not delivery:
            clashes.append((delivery, holder))
    return [holders[version] for version in sorted(holders)], stale, clashes


def _run(version: int, ahead: Iterable[Delivery], sequence: str) -> list[Delivery]:
    run: list[Delivery] = []
    for delivery in ahead:
        if sequence == CONTIGUOUS and delivery.version != version + 1:
            break
        run.append(delivery)
        version = _version(delivery)
    return run


def _version(delivery: Delivery) -> int:
    if delivery.version is None:
        raise ValueError("reading lets no event without a version into an ordered sequence")
    return delivery.version
