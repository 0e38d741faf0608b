"""Events whose inbox rows are gone: in contiguous order, positions and decisions tell which were applied."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from projectionist.runner.batch.planning import CONTIGUOUS

if TYPE_CHECKING:
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.decisions import Decisions
    from projectionist.runner.database.queries import Queries
    from projectionist.runner.decoding.delivery import Delivery


class PurgedEvents(msgspec.Struct):
    """The evidence that stands in for inbox rows that were purged."""

    purged_up_to: int = 0
    """Up to this sequence rows may be gone."""
    start: int = 0
    """Where aggregates begin: nothing up to this version was ever applied."""
    versions: Mapping[str, int] = {}
    """Where live stands with the aggregates in question."""
    apart: Container[int] = ()
    decisions: Decisions | None = None

    def covers(self, one: Delivery) -> bool:
        """Return whether an event of which the inbox knows nothing is settled, and its row gone."""
        return one.seq <= self.purged_up_to

    def was_applied(self, one: Delivery) -> bool:
        """Return whether such an event was applied, if it is the first of its version.

        It was, where live has passed its version, it stands in no quarantine and was not decided against.
        """
        aggregate, version = one.aggregate or "", one.version or 0
        if self.decisions is None or not self.covers(one) or one.seq in self.apart:
            return False
        if not self.start < version <= self.versions.get(aggregate, 0):
            return False
        return self.decisions.holds(one) and not self.decisions.stepped_over(aggregate, version)


async def forgotten_by_retention(
    queries: Queries, consumer: Consumer, unknown: Iterable[Delivery], decisions: Decisions
) -> PurgedEvents:
    """Read what that takes, after the inbox was asked about these.

    Without contiguous order rows stay as long as the stream may hold their message.
    """
    purged_up_to = await queries.value("select_purged_up_to", consumer.number) or 0
    aggregates = sorted({one.aggregate or "" for one in unknown if one.seq <= purged_up_to})
    if not aggregates or consumer.view.definition.sequence != CONTIGUOUS:
        return PurgedEvents()
    found = await queries.rows("select_positions", consumer.number, aggregates)
    apart = await queries.rows(
        "select_unapplied_sequences", consumer.number, purged_up_to, False, consumer.incarnation
    )
    versions = {row["aggregate"]: row["version"] for row in found}
    return PurgedEvents(purged_up_to, consumer.start, versions, {row["seq"] for row in apart}, decisions)
