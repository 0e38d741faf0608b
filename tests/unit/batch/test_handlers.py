"""The order in which a batch is folded, and what never reaches a handler."""

from __future__ import annotations

from tests.support.deliveries import delivery, parked, position

from projectionist.core.retry_policy import RetryPolicy
from projectionist.runner.batch.handlers import ordered, preset
from projectionist.runner.batch.planning import AggregatePlan, plan_aggregate
from projectionist.runner.batch.retry_policy import FailureReason, Refusal
from projectionist.runner.decoding.delivery import Delivery


def planned(*deliveries: Delivery, successors: tuple[Delivery, ...] = ()) -> AggregatePlan:
    """The course of one aggregate from version 0."""
    before = position(0, "gap" if successors else "clear", parked=len(successors))
    return plan_aggregate(before, list(deliveries), list(successors), "contiguous", due=False, limit=10)


def test_events_are_folded_in_stream_order_across_aggregates() -> None:
    one = planned(delivery(1, "a/1", seq=1), delivery(2, "a/1", seq=4))
    two = planned(delivery(1, "b/1", seq=2), delivery(2, "b/1", seq=3))

    assert [d.seq for _, d in ordered([one, two], {})] == [1, 2, 3, 4]


def test_versions_go_before_stream_order_inside_an_aggregate() -> None:
    one = planned(delivery(2, "a/1", seq=1), delivery(1, "a/1", seq=5))
    two = planned(delivery(1, "b/1", seq=3))

    assert [(d.aggregate, d.version) for _, d in ordered([one, two], {})] == [
        ("b/1", 1),
        ("a/1", 1),
        ("a/1", 2),
    ]


def test_nothing_behind_a_body_that_cannot_be_read_is_tried() -> None:
    bad = planned(delivery(1), delivery(2, problem="no JSON"), delivery(3))

    broken = preset([bad], RetryPolicy(), None)

    assert broken[0].at == 1
    assert broken[0].failed.delay is None
    assert [d.version for _, d in ordered([bad], broken)] == [1]


def test_an_unreadable_event_that_was_decided_against_stands_in_nobodys_way() -> None:
    given_up = planned(delivery(1), successors=(parked(2, problem="no JSON", discarded=True), parked(3)))

    assert preset([given_up], RetryPolicy(), None) == {}


def test_the_only_event_of_a_batch_that_the_database_refuses_is_failed_untried() -> None:
    broken = preset([planned(delivery(1))], RetryPolicy(), Refusal(FailureReason.DATABASE, "value too long"))

    assert broken[0].at == 0
    assert broken[0].failed.error == "value too long"
    assert broken[0].failed.delay is not None
