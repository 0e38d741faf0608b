"""What a batch's model is made of: events and their bounds, tables, open transactions, and the shipped decision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import msgspec
from tests.support.deliveries import delivery, parked, position

from projectionist.core.states import AggregateState
from projectionist.runner.batch.outcomes import FailedAt, record_outcome
from projectionist.runner.batch.planning import may_move, plan_aggregate, reach
from projectionist.runner.batch.writes import BatchWrites, EventFailure

RULES = {
    "one transaction": "identities are claimed in the transaction that applies them",
    "placeholders": "a position that is not there is made before it is locked",
    "claim order": "identities are claimed in their order",
    "lock order": "positions are locked in their order",
    "read after lock": "what is decided by is read when the lock is held",
    "parked after lock": "what is parked is read when the lock is held",
    "counted insert": "a row that was absent is inserted and counted; who comes second begins anew",
    "turn": "a batch claims after the batch before it in its process",
    "turn over": "a batch that is rolled back waits for nobody, and nobody for it",
    "barrier": "who takes a consumer over waits until no batch is open",
    "ack last": "what is not committed is not acked",
    "unknown commit": "a commit without an answer is none, until it has been looked for",
    "act locks": "what a person does to an aggregate holds its position",
}


class Event(NamedTuple):
    """One event of the stream; its place in the scenario is its identity."""

    aggregate: int
    version: int
    poison: bool = False


class Scenario(msgspec.Struct, frozen=True):
    """The bounds: what there is, and how often the environment may strike."""

    events: tuple[Event, ...]
    batches: tuple[tuple[int, tuple[int, ...]], ...]
    """(process, events as they are delivered); those of one process are chained."""
    crashes: int = 0
    unknown: int = 0
    taker: int | None = None
    """The process that takes the consumer over, and begins only then."""
    person: bool = False
    purge: bool = False
    shared: bool = True
    """Whether all aggregates write one more row together."""
    drain: int = 2
    """How many parked events one batch takes at most."""


class Place(NamedTuple):
    """The row of a position."""

    version: int = 0
    head: str = AggregateState.CLEAR
    waiting: int = 0
    """How many events are parked behind it."""


class Decided(NamedTuple):
    """What a batch does to an aggregate."""

    place: Place
    applied: tuple[int, ...]
    parked: tuple[int, ...]
    stale: tuple[int, ...]


class Tx(NamedTuple):
    """One batch: how far its transaction is, and what it has."""

    at: str = "begin"
    number: int = 0
    """How many of its claims, placeholders or locks it has taken."""
    epoch: int = 0
    fresh: frozenset[int] = frozenset()
    placed: frozenset[int] = frozenset()
    groups: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Its aggregates, each with the versions that it has claimed."""
    locked: tuple[tuple[int, Place | None], ...] = ()
    """Its aggregates as it has read them."""
    behind: tuple[tuple[int, ...], ...] | None = None
    """The parked versions by aggregate, where they were read too early."""
    decided: tuple[tuple[int, Decided], ...] = ()
    row: tuple[int, ...] | None = None
    """The shared row that it has read; None: it has read none yet, or there was none."""
    inserts: bool = False
    turn: int = 0
    """1: past its claims, 2: past its locks."""
    alone: bool = False
    """Waits for no batch before it."""


class World(NamedTuple):
    """What is committed, and the transactions that are open."""

    inbox: tuple[str, ...]
    places: tuple[Place | None, ...]
    rows: tuple[tuple[int, ...], ...]
    """By aggregate: the versions folded into its row, in the order in which they were."""
    shared: tuple[int, ...] | None
    """The events folded into a row that all aggregates share; None: it is not there."""
    batches: tuple[Tx, ...]
    epoch: int = 0
    epochs: tuple[int, ...] = ()
    acked: frozenset[int] = frozenset()
    purged: frozenset[int] = frozenset()
    seen: Place | None = None
    """What a person acts by, where it was read without the lock."""
    late: bool = False
    """Something was committed under an epoch that had ended."""
    crashes: int = 0
    unknown: int = 0


@cache
def decide(
    place: Place, fresh: Sequence[int], behind: Sequence[int], poison: frozenset[int], due: bool, most: int
) -> Decided:
    """Return what the code that ships decides on one aggregate."""
    before = position(place.version, place.head, parked=place.waiting)
    new = [delivery(version) for version in fresh]
    moves = may_move(before, new, "contiguous", due=due)
    waiting = [parked(version) for version in behind if version > place.version]
    run = waiting[: reach(before, most)] if moves else []
    plan = plan_aggregate(before, new, run, "contiguous", due=due, limit=most)
    failed = next((at for at, one in enumerate(plan.tried) if one.version in poison), None)
    writes = BatchWrites()
    broken = None if failed is None else FailedAt(failed, EventFailure())
    record_outcome(plan, broken, writes, grace=1.0)
    after = place
    for moved in writes.moved:
        after = Place(moved.version, moved.head, moved.parked)
    applied = plan.tried if failed is None else plan.tried[:failed]
    return Decided(
        place=after,
        applied=tuple(one.version or 0 for one in applied),
        parked=tuple(one.delivery.version or 0 for one in writes.parked),
        stale=tuple(one.version or 0 for one in plan.stale),
    )
