"""What one batch will write, as data: filled by pure decisions, emptied by the transaction statement by statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.states import AggregateState, Cause, InboxState, IncidentKind

if TYPE_CHECKING:
    from projectionist.projections.folding.version_verdict import Position
    from projectionist.runner.decoding.delivery import Delivery

Identity = tuple[str, str]


class Again(Exception):
    """Roll the batch back and run it anew."""


class EventFailure(msgspec.Struct, frozen=True):
    """Says how an event's handling failed, and what comes next: a delay until the next try, or none for a person."""

    error_class: str | None = None
    error: str | None = None
    stack: str | None = None
    attempts: int = 0
    budget: int | None = None
    delay: float | None = None
    view: int | None = None
    """The view whose handler failed, where one did."""


class ParkedEvent(msgspec.Struct):
    """An event to be parked for the first time."""

    delivery: Delivery
    cause: Cause
    ordered: bool
    failed: EventFailure
    is_reference: bool = False
    """Whether its bytes stay in the stream: only where they stand there as they were read."""

    @property
    def delay(self) -> float | None:
        """Return seconds until an entry without order is tried again; ordered ones wait at their aggregate's head."""
        return None if self.ordered else self.failed.delay

    @property
    def kept(self) -> bytes | None:
        """Return the bytes to store; None leaves a reference to the stream."""
        return None if self.is_reference else self.delivery.kept

    @property
    def problem(self) -> str | None:
        """Return what is wrong with the bytes; of a reference nothing is said before they are fetched."""
        return None if self.is_reference else self.delivery.problem


class PositionUpdate(msgspec.Struct, gc=False):
    """Says where one aggregate stands after the batch."""

    aggregate: str
    version: int
    head: AggregateState
    parked: int
    delay: float | None = None
    due: datetime | None = None
    seq: int | None = None
    finding: str | None = None
    """Why the missing versions cannot be had, where that is still what it waits for."""


class Quarantined(msgspec.Struct):
    """Something for quarantine."""

    seq: int
    reason: str
    detail: str
    subject: str
    source: str | None
    id: str | None
    aggregate: str | None
    version: int | None
    headers: bytes | None
    data: bytes | None
    size: int
    hash: bytes
    type: str = ""
    """Of the event, to be counted by; empty where nobody can read it."""
    again_s: float | None = None
    """Seconds until it is read again by itself; None: when somebody asks, or newer code does."""


class StillQuarantined(msgspec.Struct):
    """Something that was read again and stays in quarantine."""

    seq: int
    due: datetime
    """When somebody asked for it: whoever asks again meanwhile is not answered by this."""
    reason: str
    detail: str
    source: str | None = None
    id: str | None = None
    aggregate: str | None = None
    version: int | None = None
    again_s: float | None = None
    """Seconds until it is read again by itself, from the first time on; each time twice as long, and not for ever."""
    tries: int = 0
    """How often that happens at most."""


class Incident(msgspec.Struct):
    """An incident."""

    kind: IncidentKind
    seq: int
    source: str | None
    id: str | None
    aggregate: str | None
    version: int | None
    detail: str
    type: str = ""


class BatchWrites:
    """The writes of one batch, in the order the transaction makes them."""

    def __init__(self, sources: frozenset[str] = frozenset()) -> None:
        self.sources = sources
        """Those that are told apart where events are counted for metrics."""
        self.parked: list[ParkedEvent] = []
        self.failed_again: list[tuple[Delivery, EventFailure]] = []
        self.unparked: list[Delivery] = []
        self.moved: list[PositionUpdate] = []
        self.held: list[tuple[Position, PositionUpdate]] = []
        """Of those of `moved` that were not clear, or may not be: where they stood."""
        self.settled: dict[tuple[InboxState, str | None], list[Delivery]] = {}
        self.repeats: list[Delivery] = []
        self.quarantined: list[Quarantined] = []
        self.newly_quarantined: list[Quarantined] = []
        """What of `quarantined` was not there yet."""
        self.kept: list[StillQuarantined] = []
        self.incidents: list[Incident] = []
        self.winners: list[tuple[str, int, str, str]] = []
        self.staged = 0
        """How many intents were written."""
        self.counts: Counter[tuple[str, str]] = Counter()
        self.by_source: Counter[tuple[str, str, str]] = Counter()
        """What of `counts` is of the `sources`, with the source behind type and outcome."""

    def count(self, one: Delivery | Quarantined | Incident, outcome: str) -> None:
        """Count what has become of an event."""
        self.counts[one.type, outcome] += 1
        if one.source in self.sources:
            self.by_source[one.type, outcome, one.source or ""] += 1

    def count_all(self, deliveries: Sequence[Delivery], outcome: str) -> None:
        """Count what has become of several events alike."""
        self.counts.update((one.type, outcome) for one in deliveries)
        if self.sources:
            self.by_source.update(
                (one.type, outcome, one.source) for one in deliveries if one.source in self.sources
            )

    def settle(self, delivery: Delivery, state: InboxState, verdict: str | None) -> None:
        """Correct the provisional state of a claimed or drained entry."""
        self.settled.setdefault((state, verdict), []).append(delivery)

    def unpark(self, delivery: Delivery) -> None:
        """Take back that an entry was parked, its state and its count; another state follows."""
        for deliveries in self.settled.values():
            if delivery in deliveries:
                deliveries.remove(delivery)
        cause = next(one.cause for one in self.parked if one.delivery is delivery)
        self.counts -= Counter({(delivery.type, f"parked_{cause}"): 1})
        self.by_source -= Counter({(delivery.type, f"parked_{cause}", delivery.source): 1})

    def add_incident(self, d: Delivery, kind: IncidentKind, detail: str) -> None:
        """Report an incident about an event."""
        self.incidents.append(
            Incident(
                kind=kind,
                seq=d.seq,
                source=d.source,
                id=d.id,
                aggregate=d.aggregate,
                version=d.version,
                detail=detail,
                type=d.type,
            )
        )

    def count_new(
        self, outcome: str, counted: Iterable[Delivery | Quarantined | Incident], new: Iterable[int]
    ) -> None:
        """Count what was `told`, once for each stream sequence, where that is `new`."""
        left = set(new)
        for one in counted:
            if one.seq in left:
                left.remove(one.seq)
                self.count(one, outcome)

    def soonest(self) -> float | None:
        """Return seconds until the first of these aggregates and entries is due again."""
        delays = [moved.delay for moved in self.moved if moved.delay is not None]
        delays += [failed.delay for _, failed in self.failed_again if failed.delay is not None]
        delays += [parked.delay for parked in self.parked if parked.delay is not None]
        return min(delays, default=None)
