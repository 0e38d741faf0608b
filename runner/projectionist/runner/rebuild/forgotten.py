"""Events whose inbox rows are gone: in contiguous order, positions and decisions tell which were applied."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.runner.course import CONTIGUOUS

if TYPE_CHECKING:
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.delivery import Delivery
    from projectionist.runner.rebuild.decisions import Decisions
    from projectionist.runner.rebuild.desk import Desk


class Forgotten(msgspec.Struct):
    """What stands in for the rows that are gone."""

    line: int
    """Up to this sequence rows may be gone."""
    start: int
    """Where aggregates begin: nothing up to this version was ever applied."""
    versions: Mapping[str, int]
    """Where live stands with the aggregates in question."""
    apart: Container[int]
    decisions: Decisions | None

    def among(self, events: Sequence[Delivery], applied: Iterable[Delivery]) -> list[Delivery]:
        """Those of the events of one row that were applied, beside those of which the inbox says so: of each version
        that live has passed the first, unless it stands in quarantine or was decided against."""
        if not self.line or self.decisions is None:
            return []
        taken = {(d.aggregate, d.version) for d in applied}
        found = []
        for one in sorted(events, key=lambda d: d.seq):
            if one.seq > self.line or (one.aggregate, one.version) in taken:
                continue
            if self._was_applied(one, self.decisions):
                taken.add((one.aggregate, one.version))
                found.append(one)
        return found

    def _was_applied(self, one: Delivery, decisions: Decisions) -> bool:
        aggregate, version = one.aggregate or "", one.version or 0
        if one.seq in self.apart or not self.start < version <= self.versions.get(aggregate, 0):
            return False
        return decisions.holds(one) and not decisions.stepped_over(aggregate, version)


async def forgotten_by_retention(
    desk: Desk, consumer: Consumer, rows: Iterable[Sequence[Delivery]], decisions: Decisions
) -> Forgotten:
    """Read what that takes, in the caller's snapshot. Without contiguous order rows stay as long as the stream may hold
    their message."""
    line = await desk.value("purge_line", consumer.number) or 0
    if not line or consumer.definition.sequence != CONTIGUOUS:
        return Forgotten(0, 0, {}, (), None)
    aggregates = sorted({one.aggregate or "" for events in rows for one in events if one.seq <= line})
    found = await desk.rows("purge_stands", consumer.number, aggregates)
    apart = await desk.rows("verify_apart", consumer.number, line, False, consumer.incarnation)
    versions = {row["aggregate"]: row["version"] for row in found}
    return Forgotten(line, consumer.start, versions, {row["seq"] for row in apart}, decisions)
