"""What the model of errors is made of: events and what they bring about, parts of a batch, and the shipped answers."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tests.support.deliveries import delivery

from projectionist.core.postgres.error_class import ErrorClass
from projectionist.core.retry_policy import RetryPolicy
from projectionist.runner.batch.failure_evidence import Way
from projectionist.runner.batch.retry_policy import FailureReason, next_attempt
from projectionist.runner.batch.types import Batch
from projectionist.runner.pipeline.bisect import divided

RULES = {
    "divided": "a batch that does not get through is tried in smaller parts",
    "blamed": "what alone stays behind is to blame, whatever its errors say",
    "patience": "where nothing else gets through, an event is blamed only after it was waited for",
    "one at a time": "who is waited for next has a patience of its own",
    "tried again": "what was failed for what may be the server's fault is tried again by itself",
    "bytes": "of what cannot be failed the bytes are put aside",
    "left": "what cannot be put aside either is left, and the rest goes on",
    "left unacked": "what was left is not acked",
}
WAYS = (Way.APPLY, Way.FAIL, Way.PUT_ASIDE)
KINDS = {
    ErrorClass.DATA: FailureReason.DATABASE,
    ErrorClass.BUG: FailureReason.FAULT,
    ErrorClass.INFRASTRUCTURE: FailureReason.ALONE,
}
DRAIN = 2
"""How many parked events one aggregate drains at most."""


class Event(NamedTuple):
    """One event of the stream; its place in the scenario is its identity."""

    aggregate: int
    version: int = 1
    says: ErrorClass | None = None
    """The class of the error that it brings about whenever it is tried; None: it is good."""
    ways: int = 1
    """Which ways it keeps shut: 1: its handler's, 2: also that of being failed, 3: also that of its bytes."""


class Part(NamedTuple):
    """A part of a batch on its way through."""

    events: tuple[int, ...] = ()
    due: int | None = None
    """The aggregate whose head is tried again."""
    limit: int | None = None
    way: Way = Way.APPLY
    misses: int = 0
    unparked: int = 0
    missed: bool = False
    """It has missed before, in whichever company; what follows counts from then on."""
    others: bool = False
    waited: bool = False
    exhausted: bool = False
    says: ErrorClass | None = None
    """For what it is failed or put aside."""
    released: bool = False
    """Its bytes are from quarantine."""


class World(NamedTuple):
    """What became of the events, and the batch that is open."""

    events: tuple[str, ...]
    """By event: new, applied, parked, failed (tried again by itself), waiting (for a person), aside (its bytes, which
    are read again by themselves) or kept (its bytes, for newer code)."""
    lanes: tuple[tuple[Part, ...], ...] = ()
    acked: frozenset[int] = frozenset()
    ill: str = ""
    """The server takes nothing, or the tables of the read model do not."""
    falls: int = 0
    put_aside: int = 0
    """How many were blamed for want of a better explanation since time has passed."""


@cache
def shares(
    events: tuple[Event, ...],
    part: tuple[tuple[int, ...], int | None, int | None],
    at: int | None,
    known: bool,
) -> list[list[Part]]:
    """Return how the code that ships divides a part; `at`: the aggregate during which it has failed."""
    numbers, due, limit = part
    given = [
        delivery(events[n].version, f"order/{events[n].aggregate}", seq=n + 1, id=str(n)) for n in numbers
    ]
    batch = Batch(deliveries=given, due=[] if due is None else [f"order/{due}"], limit=limit)
    lanes = divided(batch, DRAIN, None if at is None else f"order/{at}", known=known)
    return [
        [
            Part(
                events=tuple(int(one.id) for one in each.deliveries),
                due=due if each.due else None,
                limit=each.limit,
            )
            for each in lane
        ]
        for lane in lanes
    ]


@cache
def is_tried_again(says: ErrorClass) -> bool:
    """Return whether the code that ships tries an event again that was failed for such an error."""
    failure = next_attempt(
        KINDS[says], 0, None, RetryPolicy(attempts=3), error_class="", error="", chance=1.0
    )
    return failure.delay is not None
