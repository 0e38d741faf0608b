"""Settles, in memory, what repeats inside one batch, before any statement could hide it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from projectionist.runner.decoding.delivery import Delivery

_IDENTITY = attrgetter("source", "id")
_SEQUENCE = attrgetter("seq")


class DedupedBatch(msgspec.Struct):
    """A batch in which every identity stands once."""

    fresh: list[Delivery]
    """The first of each identity by stream sequence, in the order of identities in which they are claimed."""
    again: list[Delivery]
    """Further arrivals of identities in `fresh` under other stream sequences, whatever their content."""


def intake(deliveries: Sequence[Delivery]) -> DedupedBatch:
    """Split a batch; one stream sequence that was delivered twice counts once."""
    firsts = {(d.source, d.id): d for d in deliveries}
    if len(firsts) == len(deliveries):
        return DedupedBatch(sorted(deliveries, key=_IDENTITY), [])
    firsts.clear()
    again: dict[int, Delivery] = {}
    for delivery in sorted(deliveries, key=_SEQUENCE):
        first = firsts.setdefault((delivery.source, delivery.id), delivery)
        if delivery.seq != first.seq:
            again[delivery.seq] = delivery
    return DedupedBatch(sorted(firsts.values(), key=_IDENTITY), list(again.values()))


def without(deliveries: Sequence[Delivery], aside: Collection[int]) -> tuple[list[Delivery], list[Delivery]]:
    """Return the deliveries but for those of these stream sequences, and those, however they came."""
    again = [one for one in deliveries if one.seq in aside]
    return [one for one in deliveries if one.seq not in aside], again
