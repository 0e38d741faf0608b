"""What operators and clashes have decided about events, as rebuild, verify and recompute repeat it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.states import DecisionKind
from projectionist.runner.batch.version_ranges import VersionRanges
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.jetstream.ack_subject import stream_sequence

if TYPE_CHECKING:
    from projectionist.core.nats.fast_client import Arrival
    from projectionist.core.postgres.connections import Row
    from projectionist.runner.decoding.decoder import Decoder
    from projectionist.runner.decoding.delivery import Unreadable

_ACCEPTS = frozenset({DecisionKind.ACCEPT_GAP, DecisionKind.BASELINE, DecisionKind.ERASE})
"""No event need be there for these: one that is there is old, and for one that is not nobody waits."""
_NONE = VersionRanges()
_STEPS_OVER = _ACCEPTS | {DecisionKind.SKIP, DecisionKind.DISCARD}


class CorrectionGone(ProjectionistError):
    """An event was applied as somebody had corrected it, and retention has removed the correction."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(
            f"{what} was applied as decision {number} had corrected it, and that correction is no longer kept",
            remedy="What was made of it cannot be made again. Leave the rows as they are, or `projectionist erase` "
            "the event, which leaves it out; decision_payload_retention_s keeps the next ones",
        )


class Decisions:
    """The recorded decisions of one consumer. They concern only versions above the position they were made at."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        """Take `rows` in the order in which they were made: the last edit of an event counts, the first winner."""
        self._ranges: defaultdict[str, VersionRanges] = defaultdict(VersionRanges)
        self._accepted: defaultdict[str, VersionRanges] = defaultdict(VersionRanges)
        self._erased: defaultdict[str, VersionRanges] = defaultdict(VersionRanges)
        self._dropped: set[tuple[str, str]] = set()
        self._erased_events: set[tuple[str, str]] = set()
        self._winners: dict[tuple[str, int], tuple[str, str]] = {}
        self._edits: dict[tuple[str, str], bytes] = {}
        self._amended: dict[int, tuple[bytes | None, bytes | None]] = {}
        self._forgotten: dict[tuple[str, str] | int, int] = {}
        """Corrections whose content is gone, by event or sequence: their numbers."""
        self._erased_seqs: set[int] = set()
        self.aggregates: set[str] = set()
        """Those of which a version is stepped over, or belongs to a certain identity."""
        for row in rows:
            self._add(row)

    def _add(self, row: Row) -> None:
        aggregate, version, kind = row["aggregate"], row["version"], row["kind"]
        if row["seq"] is not None:
            self._add_quarantined(row["seq"], row)
        elif kind == DecisionKind.EDIT:
            self._edits[row["source"], row["id"]] = row["data"]
            self._note((row["source"], row["id"]), row)
        elif aggregate is not None and version is not None:
            self.aggregates.add(aggregate)
            if kind == DecisionKind.WINNER:
                self._winners.setdefault((aggregate, version), (row["source"], row["id"]))
            elif kind in _STEPS_OVER:
                last = version if row["upto"] is None else row["upto"]
                for ranges in self._of_kind(kind):
                    ranges[aggregate].add(version, last)
        elif kind in _STEPS_OVER:
            self._dropped.add((row["source"], row["id"]))
            if kind == DecisionKind.ERASE:
                self._erased_events.add((row["source"], row["id"]))

    def _add_quarantined(self, seq: int, row: Row) -> None:
        if row["kind"] == DecisionKind.EDIT:
            self._amended[seq] = (row["headers"], row["data"])
            self._note(seq, row)
        elif row["kind"] == DecisionKind.ERASE:
            self._erased_seqs.add(seq)

    def _note(self, what: tuple[str, str] | int, row: Row) -> None:
        """Note whether the last correction of an event still has content."""
        self._forgotten.pop(what, None)
        if row["headers"] is None and row["data"] is None:
            self._forgotten[what] = row["number"]

    def _of_kind(self, kind: str) -> Iterator[defaultdict[str, VersionRanges]]:
        yield self._ranges
        if kind in _ACCEPTS:
            yield self._accepted
        if kind == DecisionKind.ERASE:
            yield self._erased

    def after(self, aggregate: str, version: int) -> int:
        """Return the highest version that is reached from this one by stepping over alone."""
        return self._ranges.get(aggregate, _NONE).after(version)

    def accepted(self, aggregate: str, version: int) -> int:
        """Return the same by stepping over versions of which no event need be there."""
        return self._accepted.get(aggregate, _NONE).after(version)

    def stepped_over(self, aggregate: str, version: int) -> bool:
        """Return whether this version is one that no event is applied under."""
        return version in self._ranges.get(aggregate, _NONE)

    def count(self, aggregate: str, above: int, upto: int) -> int:
        """Return how many versions in (above, upto] are stepped over."""
        return self._ranges.get(aggregate, _NONE).count(above, upto)

    def holds(self, delivery: Delivery) -> bool:
        """Return whether the event is the one its version belongs to, as far as two claimed it."""
        winner = self._winners.get((delivery.aggregate or "", delivery.version or 0))
        return winner is None or winner == (delivery.source, delivery.id)

    def winner(self, delivery: Delivery) -> tuple[str, str] | None:
        """Return the event its version belongs to, if two claimed it."""
        return self._winners.get((delivery.aggregate or "", delivery.version or 0))

    def drops(self, delivery: Delivery) -> bool:
        """Return whether the event is not to be applied: itself, or whatever comes under its version."""
        if (delivery.source, delivery.id) in self._dropped:
            return True
        return delivery.version is not None and self.stepped_over(delivery.aggregate or "", delivery.version)

    def erases(self, delivery: Delivery) -> bool:
        """Return whether the content of the event was erased, which live may have applied before."""
        if (delivery.source, delivery.id) in self._erased_events:
            return True
        erased = self._erased.get(delivery.aggregate or "", _NONE)
        return delivery.version is not None and delivery.version in erased

    def reading(self, reader: Decoder) -> Callable[[Arrival], Delivery | Unreadable | None]:
        """Return what reads arrivals: what came out of quarantine, or was edited while it was parked, as it was applied
        then."""
        if not self._amended and not self._edits:
            return reader.settled

        def read(arrival: Arrival) -> Delivery | Unreadable | None:
            seq = stream_sequence(arrival.reply)
            amended = self._amended.get(seq)
            if seq in self._forgotten and seq not in self._erased_seqs:
                raise CorrectionGone(f"sequence {seq}", self._forgotten[seq])
            if amended is None:
                one = reader.settled(arrival)
            else:
                head, data = amended
                head, data = head or arrival.head, arrival.data if data is None else data
                one = reader.read(msgspec.structs.replace(arrival, head=head, data=data))
            return self.edited(one, reader) if isinstance(one, Delivery) else one

        return read

    def edited(self, delivery: Delivery, reader: Decoder) -> Delivery:
        """Return the event with the bytes an operator gave it while it was parked, if one did."""
        identity = delivery.source, delivery.id
        data = self._edits.get(identity)
        if identity in self._forgotten and not self.drops(delivery):
            raise CorrectionGone(f"event {delivery.id!r}", self._forgotten[identity])
        if data is None:
            return delivery
        event, problem, erased = reader.body(delivery.type, delivery.schema, data)
        return msgspec.structs.replace(delivery, data=data, event=event, problem=problem, erased=erased)
