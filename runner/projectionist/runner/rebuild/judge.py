"""Which events of the stream the live generation had applied when the build was opened, in the order to fold. Pure.

A shadow never passes the live generation: what live has parked, skipped or not yet met is not folded here, so
that it is applied later by the live runner, with its effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from projectionist.runner.course import CONTIGUOUS, UNORDERED

if TYPE_CHECKING:
    from projectionist.runner.delivery import Delivery
    from projectionist.runner.rebuild.decisions import Decisions

NOTHING: Sequence[Delivery] = ()

MOST_HELD = 50_000
"""Events kept while one with a lower version is still to come; beyond, their aggregates are left to catch-up."""


class Judge:
    """Fed with the stream in its order; `caps` say where the live generation stood, `apart` what it left out.

    For contiguous and unordered sequences. What a monotonic one has applied hangs on the order of arrival, which
    only the inbox knows: there all is left to catch-up.
    """

    def __init__(
        self,
        sequence: str,
        caps: Mapping[str, int],
        decisions: Decisions,
        apart: Collection[int] = (),
        start: int = 0,
    ) -> None:
        self._sequence = sequence
        self._caps = caps
        self._decisions = decisions
        self._apart = apart
        self._start = start
        self._plain = sequence == CONTIGUOUS and not apart and not decisions.aggregates
        self._held: dict[str, dict[int, Delivery]] = {}
        self._holding = 0
        self.versions: dict[str, int] = dict.fromkeys(caps, start)
        """Where the shadow stands."""
        self.ahead = 0
        """Events left to the live generation, or to catch-up."""

    def take(self, delivery: Delivery) -> Sequence[Delivery]:
        """The events that can be folded now that this one is there, in their order; most often itself."""
        if self._plain and (at := self.versions.get(delivery.aggregate or "")) is not None:
            aggregate, version = delivery.aggregate or "", delivery.version or 0
            if version == at + 1 and version <= self._caps[aggregate] and not self._held:  # nearly always
                self.versions[aggregate] = version
                return (delivery,)
        if delivery.seq in self._apart:
            return NOTHING
        if self._sequence == UNORDERED:
            return (delivery,)
        aggregate, version = delivery.aggregate or "", delivery.version or 0
        at = self.versions.get(aggregate)
        if at is None or version > self._caps[aggregate]:
            self.ahead += 1
            return NOTHING
        if version <= at:
            return NOTHING
        if aggregate in self._decisions.aggregates:
            return self._decided(delivery, aggregate, version, at)
        if version != at + 1:
            self._hold(delivery, aggregate, version)
            return NOTHING
        self.versions[aggregate] = version
        return (delivery, *self._released(aggregate)) if aggregate in self._held else (delivery,)

    def stragglers(self) -> Iterator[tuple[str, int, int]]:
        """Aggregates that did not get to where the live generation stood: name, version, cap."""
        after = self._decisions.after
        for aggregate, cap in self._caps.items():
            at = self.versions[aggregate]
            if at != cap and (at := after(aggregate, at)) < cap:
                yield aggregate, at, cap

    def _decided(self, delivery: Delivery, aggregate: str, version: int, at: int) -> Sequence[Delivery]:
        """The same, for an aggregate about which something was decided."""
        decisions = self._decisions
        if not decisions.holds(delivery):
            return NOTHING
        at = self.versions[aggregate] = decisions.after(aggregate, at)
        if version <= at:
            return self._released(aggregate)
        if decisions.stepped_over(aggregate, version):
            return NOTHING
        if version != at + 1:
            self._hold(delivery, aggregate, version)
            return self._released(aggregate)
        self.versions[aggregate] = version
        return (delivery, *self._released(aggregate))

    def _hold(self, delivery: Delivery, aggregate: str, version: int) -> None:
        if self._holding < MOST_HELD:
            held = self._held.setdefault(aggregate, {})
            self._holding += version not in held
            held.setdefault(version, delivery)

    def _released(self, aggregate: str) -> list[Delivery]:
        """What was held and can go now."""
        held = self._held.get(aggregate)
        free: list[Delivery] = []
        if held is None:
            return free
        at = self._decisions.after(aggregate, self.versions[aggregate])
        while (delivery := held.pop(at + 1, None)) is not None:
            free.append(delivery)
            at = self._decisions.after(aggregate, at + 1)
        self._holding -= len(free)
        self.versions[aggregate] = at
        if not held:
            del self._held[aggregate]
        return free
