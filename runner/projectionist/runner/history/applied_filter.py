"""Picks the events of the stream that live had applied when the build was opened, in the order to fold. Pure.

A shadow never passes the live generation: what live has parked, skipped or not yet met is not folded here, so
that it is applied later by the live runner, with its effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.runner.batch.planning import CONTIGUOUS, UNORDERED

if TYPE_CHECKING:
    from projectionist.projections.folding.rows import Cell
    from projectionist.runner.batch.decisions import Decisions
    from projectionist.runner.decoding.delivery import Delivery

NOTHING: Sequence[Delivery] = ()

MOST_HELD = 50_000
"""Events kept while one with a lower version is still to come; beyond, their aggregates are left to catch-up."""


class AggregateProgress(msgspec.Struct, gc=False):
    """The progress of an aggregate. One object for both: every event looks for it among all aggregates."""

    at: int
    """Where the shadow stands."""
    cap: int
    """Where the live generation stood."""
    cell: Cell | None = None
    """The row of the aggregate, for the fold: not to be looked for with every event."""


class AppliedFilter:
    """Fed with the stream in its order; `apart` is what the live generation left out.

    For contiguous and unordered sequences. What a monotonic one has applied hangs on the order of arrival, which
    only the inbox knows: there all is left to catch-up.
    """

    def __init__(
        self,
        sequence: str,
        tracks: Mapping[str, AggregateProgress],
        decisions: Decisions,
        apart: Collection[int] = (),
    ) -> None:
        self._sequence = sequence
        self.tracks = tracks
        self._decisions = decisions
        self._apart = apart
        self._plain = sequence == CONTIGUOUS and not apart and not decisions.aggregates
        self._held: dict[str, dict[int, Delivery]] = {}
        self._holding = 0
        self.ahead = 0
        """Events left to the live generation, or to catch-up."""

    def next(self, delivery: Delivery) -> AggregateProgress | None:
        """Return its aggregate's track, if it can be folded now and nothing else, which is nearly always so. Where it
        is not, `take` decides."""
        if not self._plain or self._held:
            return None
        track, version = self.tracks.get(delivery.aggregate or ""), delivery.version or 0
        if track is None or track.at != version - 1 or version > track.cap:
            return None
        track.at = version
        return track

    def take(self, delivery: Delivery) -> Sequence[Delivery]:
        """Return the events that can be folded now that this one is there, in their order; most often itself."""
        if delivery.seq in self._apart:
            return NOTHING
        if self._sequence == UNORDERED:
            return (delivery,)
        aggregate, version = delivery.aggregate or "", delivery.version or 0
        track = self.tracks.get(aggregate)
        if track is None or version > track.cap:
            self.ahead += 1
            return NOTHING
        if version <= track.at:
            return NOTHING
        if aggregate in self._decisions.aggregates:
            return self._decided(delivery, aggregate, version, track)
        if version != track.at + 1:
            self._hold(delivery, aggregate, version)
            return NOTHING
        track.at = version
        return (delivery, *self._released(aggregate, track)) if aggregate in self._held else (delivery,)

    @property
    def held_aggregates(self) -> int:
        """Return of how many aggregates something is kept because a lower version has not come."""
        return len(self._held)

    def incomplete(self) -> Iterator[tuple[str, int, int]]:
        """Yield aggregates that did not get to where the live generation stood: name, version, cap."""
        after = self._decisions.after
        for aggregate, track in self.tracks.items():
            if track.at != track.cap and (at := after(aggregate, track.at)) < track.cap:
                yield aggregate, at, track.cap

    def _decided(
        self, delivery: Delivery, aggregate: str, version: int, track: AggregateProgress
    ) -> Sequence[Delivery]:
        """Return the same, for an aggregate about which something was decided."""
        decisions = self._decisions
        if not decisions.holds(delivery):
            return NOTHING
        track.at = decisions.after(aggregate, track.at)
        if version <= track.at:
            return self._released(aggregate, track)
        if decisions.stepped_over(aggregate, version):
            return NOTHING
        if version != track.at + 1:
            self._hold(delivery, aggregate, version)
            return self._released(aggregate, track)
        track.at = version
        return (delivery, *self._released(aggregate, track))

    def _hold(self, delivery: Delivery, aggregate: str, version: int) -> None:
        if self._holding < MOST_HELD:
            held = self._held.setdefault(aggregate, {})
            self._holding += version not in held
            held.setdefault(version, delivery)

    def _released(self, aggregate: str, track: AggregateProgress) -> list[Delivery]:
        """Return what was held and can go now."""
        held = self._held.get(aggregate)
        free: list[Delivery] = []
        if held is None:
            return free
        at = self._decisions.after(aggregate, track.at)
        while (delivery := held.pop(at + 1, None)) is not None:
            free.append(delivery)
            at = self._decisions.after(aggregate, at + 1)
        self._holding -= len(free)
        track.at = at
        if not held:
            del self._held[aggregate]
        return free
