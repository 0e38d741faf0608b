"""Parts of a batch: what may fail on its own, and how a batch that did not get through is divided. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.content_hash import data_hash
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.printable_text import TEXT_BYTES, is_printable, storable
from projectionist.runner.batch.failure_evidence import Way
from projectionist.runner.batch.retry_policy import MOST_TEXT
from projectionist.runner.batch.types import Batch
from projectionist.runner.decoding.delivery import Reason, Unreadable

if TYPE_CHECKING:
    from projectionist.runner.decoding.delivery import Delivery

WAYS = 8
"""Into so many parts: each is a try that may take as long as a statement may, and cost a transaction."""


class BatchPart(msgspec.Struct):
    """A part of a batch on its way through."""

    batch: Batch
    way: Way = Way.APPLY
    misses: int = 0
    since: tuple[float, int] | None = None
    """When it missed for the first time, in whichever company, and how much of the consumer had been applied then."""
    unparked: int = 0
    """How often it could not be parked as failed."""
    refused: bool = False
    """It was refused before it came here, and is not to be tried."""

    @property
    def keys(self) -> set[str]:
        """Return the aggregates, and ids without order, that stand in it."""
        return _names(self.batch)

    @property
    def is_from_quarantine(self) -> bool:
        """Tell that it is one event that was put aside before and is read again."""
        deliveries = self.batch.deliveries
        return len(deliveries) == 1 and deliveries[0].released is not None

    def on(self, way: Way, batch: Batch) -> None:
        """Try something else with it."""
        self.way, self.batch, self.misses = way, batch, 0


def part_of(batch: Batch, since: tuple[float, int] | None = None) -> BatchPart:
    """Return a batch, or a share of one, as a part."""
    holds_events = batch.deliveries or batch.due or batch.entries
    way = Way.FAIL if batch.refusal else Way.APPLY if holds_events else Way.PUT_ASIDE
    return BatchPart(batch=batch, way=way, since=since, refused=batch.refusal is not None)


def divided(
    batch: Batch, drain_batch_size: int, at: str | None = None, *, known: bool = False
) -> list[list[Batch]]:
    """Return the batch in lanes that do not depend on each other, each in its order; none if it is one event.

    `at`: the aggregate, or event without order, during which it failed: a lane of its own. A new event is tried without
    what it might drain, and of a drain less and less at once; `known`: only its head, which has failed before.
    """
    parts = units(batch)
    if len(parts) > 1:
        names = {name for part in parts for name in _names(part)}
        if len(names) == 1 and not (batch.entries or batch.unreadable or batch.foreign):
            return [[merged(some, batch.limit) for some in _shares(parts)]]
        apart = [part for part in parts if at in _names(part)] if at in names else []
        others = [part for part in parts if at not in _names(part)] if apart else parts
        shares = [others] if apart else _shares(others)
        return [[merged(some, batch.limit)] for some in [*shares, *([part] for part in apart)]]
    limit = drain_batch_size if batch.limit is None else batch.limit
    least = 0 if batch.deliveries else 1
    if batch.unreadable or batch.entries or batch.foreign or limit <= least:
        return []
    less = least if batch.deliveries or known else max(least, limit // WAYS)
    return [[msgspec.structs.replace(batch, limit=less)]]


def _shares(parts: Sequence[Batch]) -> list[Sequence[Batch]]:
    size = -(-len(parts) // WAYS)
    return [parts[start : start + size] for start in range(0, len(parts), size)]


def _names(part: Batch) -> set[str]:
    return {*part.due, *(i for _, i in part.entries), *(d.aggregate or d.id for d in part.deliveries)}


def units(batch: Batch) -> list[Batch]:
    """Return the batch in the smallest parts that may fail on their own: by aggregate, and inside one aggregate by
    event."""
    groups: dict[str, list[Delivery]] = {aggregate: [] for aggregate in batch.due}
    for delivery in batch.deliveries:
        groups.setdefault(delivery.aggregate or delivery.id, []).append(delivery)
    parts = [Batch(entries=[identity]) for identity in batch.entries]
    parts += [Batch(unreadable=[one]) for one in batch.unreadable]
    parts += [Batch(foreign=batch.foreign)] if batch.foreign else []
    if len(groups) + len(parts) > 1:
        due = frozenset(batch.due)
        return parts + [
            Batch(deliveries=group, due=[a] if a in due else []) for a, group in sorted(groups.items())
        ]
    ordered = sorted(batch.deliveries, key=lambda d: (d.version or 0, d.seq))
    return (
        parts
        + ([Batch(due=batch.due)] if batch.due else [])
        + [Batch(deliveries=[delivery]) for delivery in ordered]
    )


def merged(parts: Sequence[Batch], limit: int | None) -> Batch:
    """Return parts of a batch as one again."""
    return Batch(
        deliveries=[d for part in parts for d in part.deliveries],
        unreadable=[u for part in parts for u in part.unreadable],
        due=[a for part in parts for a in part.due],
        entries=[e for part in parts for e in part.entries],
        foreign=[f for part in parts for f in part.foreign],
        limit=limit,
    )


def as_bytes(delivery: Delivery, why: str, again_s: float | None) -> Unreadable:
    """Return an event that PostgreSQL refuses, for quarantine: its bytes, and its place only where that is above
    suspicion."""
    d, placed = delivery, delivery.aggregate is not None and is_printable(delivery.aggregate, TEXT_BYTES)
    arrival = d.arrival or Arrival(subject=d.subject, reply=b"", head=None, data=d.data, received=0.0)
    return Unreadable(
        reason=Reason.REFUSED,
        detail=storable(why)[:MOST_TEXT],
        stream=d.stream,
        seq=d.seq,
        subject=storable(d.subject),
        headers=arrival.head,
        data=d.data,
        size=len(d.data),
        hash=data_hash(d.data),
        received_us=d.received_us,
        delivered=d.delivered,
        arrival=arrival,
        aggregate=d.aggregate if placed else None,
        version=d.version if placed else None,
        again_s=again_s,
    )
