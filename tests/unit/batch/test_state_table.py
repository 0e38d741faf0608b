"""The table of heads against what happens to them, cell by cell: what is tried, what waits, and where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.support.deliveries import delivery, parked, position

from projectionist.core.states import AggregateState, Cause, InboxState
from projectionist.projections.compiled.class_options import Sequencing
from projectionist.runner.batch.outcomes import FailedAt, record_outcome
from projectionist.runner.batch.planning import may_move, plan_aggregate, reach
from projectionist.runner.batch.writes import BatchWrites, EventFailure
from projectionist.runner.decoding.delivery import Delivery

AT = 2
"""Every aggregate here stands at version 2."""
GRACE = 0.5


class Outcome(msgspec.Struct):
    """What one batch makes of the aggregate."""

    tried: list[int | None]
    stale: list[int | None]
    clashed: list[int | None]
    parked: dict[int | None, Cause]
    at: tuple[int, AggregateState, int] | None
    """Version, head and parked count afterwards; None: the position is not written."""
    delay: float | None
    states: dict[int | None, InboxState]


def batch(
    head: AggregateState,
    arrive: Sequence[int] = (),
    behind: Sequence[int] = (),
    *,
    finding: str | None = None,
    due: bool = False,
    limit: int = 3,
    fails: int | None = None,
    again_in: float | None = None,
    sequence: Sequencing = "contiguous",
) -> Outcome:
    """One aggregate at version 2 with `behind` parked, through plan and close; version `fails` breaks."""
    before = position(AT, head, finding=finding, parked=len(behind))
    fresh = [delivery(version, seq=100 + version) for version in arrive]
    waiting: list[Delivery] = []
    if may_move(before, fresh, sequence, due=due):
        waiting = [parked(version) for version in behind[: reach(before, limit)]]
    one = plan_aggregate(before, fresh, waiting, sequence, due=due, limit=limit)
    versions = [d.version for d in one.tried]
    broken = None
    if fails in versions:
        broken = FailedAt(versions.index(fails), EventFailure(error="no", attempts=1, delay=again_in))
    writes = BatchWrites()
    record_outcome(one, broken, writes, grace=GRACE)
    moved = writes.moved[0] if writes.moved else None
    return Outcome(
        tried=versions,
        stale=[d.version for d in one.stale],
        clashed=[loser.version for loser, _ in one.clashes],
        parked={p.delivery.version: p.cause for p in writes.parked},
        at=None if moved is None else (moved.version, moved.head, moved.parked),
        delay=None if moved is None else moved.delay,
        states={d.version: state for (state, _), many in writes.settled.items() for d in many},
    )


@pytest.mark.parametrize(
    ("given", "at", "kept"),
    [
        # the next version
        ({"head": AggregateState.CLEAR, "arrive": [3]}, (3, AggregateState.CLEAR, 0), {}),
        ({"head": AggregateState.GAP, "arrive": [3], "behind": [4, 5]}, (5, AggregateState.CLEAR, 0), {}),
        ({"head": AggregateState.GAP, "arrive": [3], "behind": [5]}, (3, AggregateState.GAP, 1), {}),
        ({"head": AggregateState.GAP, "arrive": [3], "behind": [4, 5, 6]}, (6, AggregateState.CLEAR, 0), {}),
        (
            {"head": AggregateState.GAP, "arrive": [3], "behind": [4, 5, 6, 7]},
            (6, AggregateState.DRAINING, 1),
            {},
        ),
        (
            {"head": AggregateState.WAITING, "finding": "lost", "arrive": [3], "behind": [4]},
            (4, AggregateState.CLEAR, 0),
            {},
        ),
        # a version beyond it
        ({"head": AggregateState.CLEAR, "arrive": [4]}, (2, AggregateState.GAP, 1), {4: Cause.GAP}),
        (
            {"head": AggregateState.GAP, "arrive": [5], "behind": [4]},
            (2, AggregateState.GAP, 2),
            {5: Cause.GAP},
        ),
        (
            {"head": AggregateState.FAILED, "arrive": [4], "behind": [3]},
            (2, AggregateState.FAILED, 2),
            {4: Cause.BLOCKED},
        ),
        (
            {"head": AggregateState.WAITING, "arrive": [4], "behind": [3]},
            (2, AggregateState.WAITING, 2),
            {4: Cause.BLOCKED},
        ),
        (
            {"head": AggregateState.WAITING, "finding": "lost", "arrive": [5], "behind": [4]},
            (2, AggregateState.WAITING, 2),
            {5: Cause.GAP},
        ),
        (
            {"head": AggregateState.DRAINING, "arrive": [5], "behind": [3, 4]},
            (2, AggregateState.DRAINING, 3),
            {5: Cause.GAP},
        ),
        # due
        ({"head": AggregateState.GAP, "behind": [4], "due": True}, (2, AggregateState.GAP, 1), {}),
        ({"head": AggregateState.GAP, "behind": [3, 4], "due": True}, (4, AggregateState.CLEAR, 0), {}),
        ({"head": AggregateState.FAILED, "behind": [3, 4], "due": True}, (3, AggregateState.DRAINING, 1), {}),
        (
            {"head": AggregateState.FAILED, "behind": [3, 4], "due": True, "fails": 3},
            (2, AggregateState.WAITING, 2),
            {},
        ),
        (
            {"head": AggregateState.FAILED, "behind": [3, 4], "due": True, "fails": 3, "again_in": 7.0},
            (2, AggregateState.FAILED, 2),
            {},
        ),
        ({"head": AggregateState.FAILED, "behind": [3], "due": True}, (3, AggregateState.CLEAR, 0), {}),
        (
            {"head": AggregateState.DRAINING, "behind": [3, 4, 5], "due": True, "fails": 4},
            (3, AggregateState.WAITING, 2),
            {},
        ),
        (
            {"head": AggregateState.FAILED, "behind": [3, 4, 5], "due": True, "fails": 4},
            (3, AggregateState.DRAINING, 2),
            {},
        ),
        ({"head": AggregateState.DRAINING, "behind": [3, 4], "due": True}, (4, AggregateState.CLEAR, 0), {}),
        (
            {"head": AggregateState.DRAINING, "behind": [3, 4, 5, 6], "due": True},
            (5, AggregateState.DRAINING, 1),
            {},
        ),
        ({"head": AggregateState.DRAINING, "behind": [3, 5], "due": True}, (3, AggregateState.GAP, 1), {}),
        # a failure on the way
        (
            {"head": AggregateState.CLEAR, "arrive": [3], "fails": 3},
            (2, AggregateState.WAITING, 1),
            {3: Cause.FAILED},
        ),
        (
            {"head": AggregateState.CLEAR, "arrive": [3], "fails": 3, "again_in": 1.0},
            (2, AggregateState.FAILED, 1),
            {3: Cause.FAILED},
        ),
        (
            {"head": AggregateState.CLEAR, "arrive": [3, 4, 5], "fails": 4},
            (3, AggregateState.WAITING, 2),
            {4: Cause.FAILED, 5: Cause.BLOCKED},
        ),
        (
            {"head": AggregateState.GAP, "arrive": [3], "behind": [4, 5], "fails": 4},
            (3, AggregateState.WAITING, 2),
            {},
        ),
        (
            {"head": AggregateState.CLEAR, "arrive": [3, 5], "fails": 3},
            (2, AggregateState.WAITING, 2),
            {3: Cause.FAILED, 5: Cause.GAP},
        ),
    ],
)
def test_where_an_aggregate_stands_after_a_batch(
    given: dict[str, Any], at: tuple[int, AggregateState, int], kept: dict[int, Cause]
) -> None:
    outcome = batch(**given)

    assert outcome.at == at
    assert outcome.parked == kept
    assert all(outcome.states[v] == InboxState.PARKED for v in kept)


@pytest.mark.parametrize("head", list(AggregateState))
def test_a_version_at_or_below_the_position_is_never_tried_and_moves_nothing(head: AggregateState) -> None:
    outcome = batch(head, [1, 2], [4] if head is not AggregateState.CLEAR else ())

    assert outcome.stale == [1, 2]
    assert outcome.tried == []
    assert outcome.at is None


@pytest.mark.parametrize("head", [AggregateState.FAILED, AggregateState.WAITING, AggregateState.DRAINING])
def test_nothing_is_tried_behind_a_closed_head_however_well_the_version_fits(head: AggregateState) -> None:
    outcome = batch(head, [4], [3])

    assert outcome.tried == []
    assert outcome.at is not None
    assert outcome.at[1] is head


def test_a_waiting_head_is_never_due_and_stays_waiting() -> None:
    outcome = batch(AggregateState.WAITING, behind=[3], due=True)

    assert outcome.tried == []
    assert outcome.at is None


def test_a_head_that_is_due_no_more_by_the_time_it_is_locked_is_left_as_it_is() -> None:
    assert batch(AggregateState.FAILED, behind=[3]).at is None
    assert batch(AggregateState.GAP, behind=[4]).at is None


def test_a_failed_head_stands_still_in_monotonic_order_too() -> None:
    assert batch(AggregateState.FAILED, [9], [3], sequence="monotonic").tried == []
    assert batch(AggregateState.WAITING, [9], [3], sequence="monotonic").tried == []


def test_monotonic_order_passes_over_what_is_missing_and_takes_what_comes_later() -> None:
    outcome = batch(AggregateState.CLEAR, [9, 5, 7], sequence="monotonic")

    assert outcome.tried == [5, 7, 9]
    assert outcome.at == (9, AggregateState.CLEAR, 0)


def test_a_batch_is_tried_in_the_order_of_versions_not_of_arrival() -> None:
    assert batch(AggregateState.CLEAR, [5, 3, 4]).tried == [3, 4, 5]


def test_two_events_of_one_version_in_a_batch_clash_and_the_earlier_one_holds_it() -> None:
    late, early = delivery(3, id="late", seq=9), delivery(3, id="early", seq=8)

    one = plan_aggregate(position(AT), [late, early], [], "contiguous", due=False, limit=3)

    assert one.tried == [early]
    assert one.clashes == [(late, early)]


def test_a_parked_event_holds_its_version_against_one_that_arrives() -> None:
    waiting, new = parked(4), delivery(4, id="other", seq=1)

    one = plan_aggregate(
        position(AT, "gap", parked=1), [delivery(3), new], [waiting], "contiguous", due=False, limit=3
    )

    assert one.clashes == [(new, waiting)]
    assert one.tried[1] is waiting


def test_a_new_gap_is_left_alone_for_its_grace_and_followers_do_not_put_it_off() -> None:
    assert batch(AggregateState.CLEAR, [5]).delay == GRACE
    assert batch(AggregateState.GAP, [6], [5]).delay is None  # its own due time stays


def test_the_rest_of_a_long_drain_is_due_at_once() -> None:
    assert batch(AggregateState.GAP, [3], [4, 5, 6, 7, 8]).delay == 0


def test_parked_events_are_read_only_where_the_head_can_move() -> None:
    def reads(head: str, arrives: int, *, due: bool = False, sequence: Sequencing = "contiguous") -> bool:
        return may_move(position(AT, head, parked=1), [delivery(arrives)], sequence, due=due)

    assert reads("gap", 3)
    assert not reads("gap", 9)
    assert reads("gap", 9, due=True)
    assert not reads("failed", 3)
    assert reads("failed", 9, due=True)
    assert reads("clear", 9, sequence="monotonic")
    assert not may_move(position(AT, "gap", parked=0), [delivery(3)], "contiguous", due=True)
