"""What tests of quarantine share: events that cannot be read, and the entries that they become."""

from __future__ import annotations

from typing import Any

from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.waiting import eventually

from projectionist.core.operator import Act

ME = Act("ann", "the producer forgot it")


async def without_version(live: ConsumerHarness, event: Any, aggregate: str = "o1", **headers: str) -> int:
    """An event whose aggregate has no version: it cannot be read where order counts."""
    return await live.publish(event, aggregate, None, headers=headers)


async def entries(live: ConsumerHarness) -> list[tuple[Any, ...]]:
    return await inspection.rows(live, "quarantine", "seq", "state", "reason", "attempts", order="seq")


async def accounted_once(live: ConsumerHarness, cls: type) -> None:
    """Every sequence has one outcome, and none has two."""
    assert await live.unaccounted(cls) == []
    twice = await live.fetch(
        """select seq from (
            select incarnation, seq from {s}.inbox where state <> 'quarantined'
            union all select incarnation, seq from {s}.duplicates
            union all select incarnation, seq from {s}.quarantine where state = 'quarantined'
            union all select incarnation, seq from {s}.quarantine q where state = 'discarded' and not exists (
                select from {s}.inbox i where i.incarnation = q.incarnation and i.seq = q.seq)
        ) outcome group by incarnation, seq having count(*) > 1"""
    )
    assert twice == []


async def released(live: ConsumerHarness, count: int = 1) -> None:
    await inspection.reaches(count, inspection.count_quarantined, live, state="released")


async def tried(live: ConsumerHarness, times: int = 1) -> None:
    await eventually(lambda: live.value("select count(*) > 0 from {s}.quarantine where attempts = $1", times))
