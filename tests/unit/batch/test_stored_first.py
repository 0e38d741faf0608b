"""What storing first makes of each head: nothing is tried, and whoever can go on is due at once."""

from __future__ import annotations

import pytest
from tests.support.deliveries import delivery, position

from projectionist.core.states import AggregateState, Cause, InboxState
from projectionist.runner.batch.outcomes import record_outcome
from projectionist.runner.batch.planning import put_by, stored
from projectionist.runner.batch.writes import BatchWrites

AT = 2
"""Every aggregate here stands at version 2."""


@pytest.mark.parametrize(
    ("head", "finding", "arrives", "ends", "cause", "delay"),
    [
        (AggregateState.CLEAR, None, [3], AggregateState.DRAINING, Cause.STORED, 0.0),
        (
            AggregateState.CLEAR,
            None,
            [5],
            AggregateState.DRAINING,
            Cause.STORED,
            0.0,
        ),  # the drain finds the gap
        (AggregateState.DRAINING, None, [9], AggregateState.DRAINING, Cause.STORED, 0.0),
        (AggregateState.GAP, None, [3], AggregateState.DRAINING, Cause.STORED, 0.0),
        (AggregateState.GAP, None, [5], AggregateState.GAP, Cause.GAP, None),
        (AggregateState.GAP, None, [5, 3], AggregateState.DRAINING, Cause.STORED, 0.0),
        (AggregateState.WAITING, "lost", [3], AggregateState.DRAINING, Cause.STORED, 0.0),
        (AggregateState.WAITING, "lost", [5], AggregateState.WAITING, Cause.GAP, None),
        (AggregateState.WAITING, None, [5], AggregateState.WAITING, Cause.BLOCKED, None),
        (AggregateState.FAILED, None, [5], AggregateState.FAILED, Cause.BLOCKED, None),
    ],
)
def test_a_head_that_can_move_drains_next(
    head: AggregateState,
    finding: str | None,
    arrives: list[int],
    ends: AggregateState,
    cause: Cause,
    delay: float | None,
) -> None:
    before = position(AT, head, finding=finding, parked=0 if head is AggregateState.CLEAR else 1)
    fresh = [delivery(version, seq=100 + version) for version in arrives]
    writes = BatchWrites()

    record_outcome(stored(before, fresh, "contiguous"), None, writes, grace=0.5)

    [moved] = writes.moved
    assert (moved.version, moved.head, moved.delay) == (AT, ends, delay)
    assert moved.parked == before.parked + len(arrives)
    assert {p.cause for p in writes.parked} == {cause}
    assert set(writes.settled) == {(InboxState.PARKED, {"stored": "next"}.get(cause, cause))}


def test_what_is_too_old_is_stale_before_it_is_stored() -> None:
    old, twice = delivery(2), delivery(3, id="first", seq=1)
    other = delivery(3, id="second", seq=2)

    one = stored(position(AT), [other, old, twice], "contiguous")

    assert (one.held, one.stale, one.clashes) == ([twice], [old], [(other, twice)])


def test_a_stored_event_keeps_its_bytes_however_many_there_are() -> None:
    writes = BatchWrites()

    record_outcome(stored(position(AT), [delivery(3)], "contiguous"), None, writes, grace=0.5, keep=0)

    assert not writes.parked[0].is_reference


def test_an_event_without_order_is_due_at_once() -> None:
    writes = BatchWrites()

    record_outcome(put_by(delivery(None, None, id="alone")), None, writes, grace=0.5)

    [one] = writes.parked
    assert (one.cause, one.ordered, one.delay) == (Cause.STORED, False, 0.0)
    assert writes.moved == []
