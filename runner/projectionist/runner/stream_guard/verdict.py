"""Judges whether a stream and a durable are still those that were read so far, and where reading goes on. Pure.

Name, creation time and last sequence cannot tell: a stream that lost its tail and was written on has them all. So the
content of two messages is compared with what PostgreSQL remembers of it: at the ack floor, and at the stream's end.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

import msgspec

from projectionist.core.nats.durable_age import is_same
from projectionist.core.states import IncidentKind


class MessageFingerprint(msgspec.Struct, frozen=True):
    """One message, by what tells it from another one under the same sequence."""

    seq: int = 0
    hash: bytes | None = None
    """Of subject, headers and data."""
    stored: str | None = None
    """When the stream took it, which a copy keeps and a new message never has."""


class Checkpoint(msgspec.Struct, frozen=True):
    """PostgreSQL's memory of a stream and a durable."""

    created: datetime
    floor: MessageFingerprint
    top: MessageFingerprint
    seen: int
    deliveries: int
    durable_created: datetime | None
    acked: int | None = 0
    """How many deliveries there were up to the floor; None where that is not known."""
    quiet: bool = False
    """Nothing of what the stream had taken when it was asked was outstanding."""


class Observation(msgspec.Struct, frozen=True):
    """The broker's word on them now."""

    created: datetime
    first_seq: int
    last_seq: int
    at_floor: MessageFingerprint | None
    """What stands now where the floor was; None for nothing."""
    at_top: MessageFingerprint | None
    ack_floor: int
    delivered: int
    """The highest sequence that was delivered."""
    deliveries: int
    durable_created: datetime
    mirror_of: str | None = None


class Judgement(msgspec.Struct, frozen=True):
    """The answer: nothing, tell, go on from another sequence, or halt until an operator has decided."""

    fact: IncidentKind | None = None
    halted: bool = False
    text: str = ""
    """What is wrong."""
    equal: bool = False
    """Whether a halted stream holds the very messages that were read, under the same sequences."""
    gone: int = 0
    """Up to where messages were removed."""
    go_to: int | None = None
    """The sequence to deliver next, where the durable does not stand right."""
    why: str = ""
    """Why it has to go there."""
    doubt: bool = False
    """Whether `go_to` is a precaution, which processes that have worked all along make needless."""


class _Likeness(Enum):
    SAME = "same"
    COPY = "copy"
    """Equal content that was stored at another time."""
    OTHER = "other"
    BEYOND = "beyond"
    """The stream ends before it."""
    UNKNOWN = "unknown"
    """Nothing was remembered, or the message was removed since."""


def judge(known: Checkpoint, seen: Observation, *, restored: bool) -> Judgement:
    """Compare. `restored`: the database may be older than the broker, as after any start."""
    likeness = {_likeness(known.floor, seen.at_floor, seen), _likeness(known.top, seen.at_top, seen)}
    if halted := _other_stream(known, seen, likeness):
        equal = halted[0] == IncidentKind.STREAM_COPIED and _Likeness.COPY not in likeness
        return Judgement(fact=halted[0], halted=True, text=halted[1], equal=equal)
    go_to, why = _where(known, seen)
    # A purge raises the ack floor too, over messages that no reading brings back.
    doubt = go_to is None and restored and seen.ack_floor > max(known.floor.seq, seen.first_seq - 1)
    if doubt:
        go_to, why = known.floor.seq + 1, "the database may lack what the broker holds for settled"
    if seen.first_seq > known.seen + 1:
        lost = (
            f"messages {known.seen + 1} to {seen.first_seq - 1} were removed from the stream before this consumer "
            "had settled all of its own among them"
        )
        gone = seen.first_seq - 1
        return Judgement(
            fact=IncidentKind.STREAM_PURGED, text=lost, gone=gone, go_to=go_to, why=why, doubt=doubt
        )
    return Judgement(go_to=go_to, why=why, doubt=doubt)


def _likeness(known: MessageFingerprint, found: MessageFingerprint | None, seen: Observation) -> _Likeness:
    if known.seq == 0 or known.hash is None:
        return _Likeness.UNKNOWN
    if known.seq > seen.last_seq:
        return _Likeness.BEYOND
    if found is None:
        return _Likeness.UNKNOWN
    if found.hash != known.hash:
        return _Likeness.OTHER
    return _Likeness.SAME if found.stored == known.stored else _Likeness.COPY


def _other_stream(
    known: Checkpoint, seen: Observation, likeness: set[_Likeness]
) -> tuple[IncidentKind, str] | None:
    """Return whether this is another stream, or the same one without its end; and in which words."""
    anew = seen.created != known.created
    if likeness & {_Likeness.OTHER, _Likeness.BEYOND} or (likeness & {_Likeness.COPY} and not anew):
        what = "ends" if _Likeness.BEYOND in likeness else "holds other messages"
        where = (
            f"{what} at {seen.last_seq}" if what == "ends" else f"{what} where {known.floor.seq} was settled"
        )
        if anew:
            return IncidentKind.STREAM_REPLACED, f"the stream was made anew at {seen.created}, and {where}"
        return (
            IncidentKind.STREAM_REGRESSED,
            f"the stream lost its end, which was {known.top.seq}, and now {where}",
        )
    if not anew:
        return None
    if likeness == {_Likeness.UNKNOWN}:
        return (
            IncidentKind.STREAM_REPLACED,
            f"the stream was made anew at {seen.created}, and nothing is left to compare it by",
        )
    kind = f"a mirror of {seen.mirror_of}" if seen.mirror_of else "a copy"
    stored = ", stored anew" if _Likeness.COPY in likeness else ""
    return (
        IncidentKind.STREAM_COPIED,
        f"the stream is {kind}, made at {seen.created}, with the content known here{stored}",
    )


def _where(known: Checkpoint, seen: Observation) -> tuple[int | None, str]:
    """Return where the durable has to go on, if it certainly does not stand right."""
    floor = known.floor.seq
    lowest = min(floor, seen.ack_floor, seen.last_seq)
    if known.durable_created is not None and not is_same(seen.durable_created, known.durable_created):
        if seen.ack_floor != floor:
            return floor + 1, "the durable was deleted and created again"
    elif seen.deliveries < known.deliveries and seen.ack_floor > floor:
        return lowest + 1, "the durable was moved by another client"
    elif max(seen.ack_floor, seen.delivered) > seen.last_seq:
        return lowest + 1, "the durable is ahead of its stream, and would deliver nothing"
    return None, ""
