"""What was tried, as it is written."""

from __future__ import annotations

from tests.support.deliveries import delivery, parked, position

from projectionist.core.states import AggregateState, Cause, InboxState
from projectionist.runner.batch.outcomes import FailedAt, held_changes, record_outcome
from projectionist.runner.batch.planning import alone, plan_aggregate
from projectionist.runner.batch.writes import BatchWrites, EventFailure, PositionUpdate
from projectionist.runner.decoding.delivery import Delivery


def closed(
    fresh: list[Delivery],
    successors: list[Delivery],
    broken: FailedAt | None = None,
    *,
    version: int = 0,
    head: str = "clear",
    due: bool = False,
) -> BatchWrites:
    """The writes of one aggregate's batch."""
    before = position(version, head, parked=len(successors))
    writes = BatchWrites()
    record_outcome(
        plan_aggregate(before, fresh, successors, "contiguous", due=due, limit=10), broken, writes, grace=1.0
    )
    return writes


def test_an_applied_event_needs_no_second_write_of_its_inbox_row() -> None:
    writes = closed([delivery(1)], [])

    assert writes.settled == {}
    assert writes.parked == []
    assert writes.counts == {("order.placed", "applied"): 1}


def test_a_drained_event_is_settled_and_leaves_the_parked_ones() -> None:
    waiting = parked(2)
    writes = closed([delivery(1)], [waiting], head="gap")

    assert writes.unparked == [waiting]
    assert writes.settled == {(InboxState.APPLIED, None): [waiting]}
    assert writes.moved[0].parked == 0


def test_an_undeclared_type_is_ignored_and_moves_the_position() -> None:
    writes = closed([delivery(1, event=None)], [])

    assert writes.counts == {("order.placed", "ignored"): 1}
    assert writes.moved[0].version == 1


def test_a_discarded_follower_is_stepped_over_in_its_turn() -> None:
    waiting = parked(2, discarded=True)
    writes = closed([delivery(1)], [waiting], head="gap")

    assert writes.settled == {(InboxState.DISCARDED, None): [waiting]}
    assert writes.moved[0].version == 2


def test_a_failed_event_and_its_followers_are_parked_with_why() -> None:
    one, two = delivery(1), delivery(2)
    failed = EventFailure(error_class="ValueError", error="no", attempts=1, delay=None)
    writes = closed([one, two], [], FailedAt(0, failed))

    assert [(p.delivery, p.cause, p.failed) for p in writes.parked] == [
        (one, Cause.FAILED, failed),
        (two, Cause.BLOCKED, EventFailure()),
    ]
    assert writes.settled == {(InboxState.PARKED, "next"): [one], (InboxState.PARKED, "blocked"): [two]}
    assert writes.moved[0].head is AggregateState.WAITING


def test_a_parked_event_that_fails_again_is_counted_in_its_row_and_not_parked_twice() -> None:
    head, follower = parked(1), parked(2)
    failed = EventFailure(attempts=2, delay=4.0)
    writes = closed([], [head, follower], FailedAt(0, failed), head="failed", due=True)

    assert writes.failed_again == [(head, failed)]
    assert writes.parked == []
    assert (writes.moved[0].head, writes.moved[0].parked, writes.moved[0].delay) == (
        AggregateState.FAILED,
        2,
        4.0,
    )


def test_the_position_remembers_the_stream_sequence_of_what_was_applied_last() -> None:
    assert closed([delivery(1, seq=17)], []).moved[0].seq == 17
    assert closed([delivery(5, seq=18)], []).moved[0].seq is None


def test_an_event_without_order_that_fails_waits_alone_and_moves_no_position() -> None:
    writes = BatchWrites()
    record_outcome(
        alone(delivery(None, None, id="x")), FailedAt(0, EventFailure(delay=2.0)), writes, grace=1.0
    )

    assert [(p.ordered, p.delay) for p in writes.parked] == [(False, 2.0)]
    assert writes.moved == []
    assert writes.soonest() == 2.0


def test_a_process_comes_back_when_the_first_of_its_delays_is_over() -> None:
    writes = closed([delivery(5)], [])
    record_outcome(
        plan_aggregate(position(0), [delivery(1, "order/o2")], [], "contiguous", due=False, limit=10),
        FailedAt(0, EventFailure(delay=0.2)),
        writes,
        grace=1.0,
    )

    assert writes.soonest() == 0.2
    assert BatchWrites().soonest() is None


def test_changes_of_what_is_held_are_counted_by_state_and_only_where_there_are_any() -> None:
    clear, gap, failed = AggregateState.CLEAR, AggregateState.GAP, AggregateState.FAILED

    def moved(head: AggregateState, parked: int) -> PositionUpdate:
        return PositionUpdate(aggregate="order/1", version=1, head=head, parked=parked)

    assert held_changes([]) == {}
    assert held_changes([(position(0, "clear"), moved(clear, 0))]) == {}
    assert held_changes([(position(0, "gap", parked=2), moved(gap, 2))]) == {}
    assert held_changes([(position(0, "gap", parked=2), moved(gap, 5))]) == {gap: (0, 3)}
    assert held_changes(
        [(position(0, "clear"), moved(gap, 1)), (position(0, "gap", parked=3), moved(failed, 4))]
    ) == {
        gap: (0, -2),
        failed: (1, 4),
    }
    assert held_changes([(position(0, "draining", parked=7), moved(clear, 0))]) == {
        AggregateState.DRAINING: (-1, -7)
    }


def test_events_of_sources_that_are_listed_are_counted_by_source_too() -> None:
    writes = BatchWrites(sources=frozenset({"shop"}))
    fresh = [delivery(1), delivery(2, source="till")]
    record_outcome(
        plan_aggregate(position(), fresh, [], "contiguous", due=False, limit=10), None, writes, grace=1.0
    )
    assert writes.by_source == {("order.placed", "applied", "shop"): 1}


def test_where_more_is_parked_than_may_keep_its_bytes_all_that_comes_is_a_reference() -> None:
    writes = BatchWrites()
    plan = plan_aggregate(
        position(0, "gap", parked=2), [delivery(5), delivery(6)], [], "contiguous", due=False, limit=10
    )
    record_outcome(plan, None, writes, grace=1.0, keep=1)
    assert [one.is_reference for one in writes.parked] == [True, True]
