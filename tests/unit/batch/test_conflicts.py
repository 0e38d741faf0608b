"""What contradicts itself: one name for two things."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.deliveries import delivery, unreadable

from projectionist.core.states import InboxState, IncidentKind
from projectionist.runner.batch import conflicts


def holder(state: str = "applied", *, id: str = "first", version: int = 3) -> dict[str, Any]:  # noqa: A002
    """An inbox row of the version."""
    return {"aggregate": "order/o1", "version": version, "source": "shop", "id": id, "state": state}


def stepped(first: int, last: int, aggregate: str = "order/o1") -> dict[str, Any]:
    """A range that a decision stepped over."""
    return {"aggregate": aggregate, "version": first, "upto": last}


@pytest.mark.parametrize("state", ["applied", "ignored", "skipped", "discarded"])
def test_another_identity_at_a_settled_version_is_its_second_use(state: str) -> None:
    row = holder(state)

    assert conflicts.judge_old(delivery(3, id="second"), [row], []) == ("reused", row)


@pytest.mark.parametrize("state", ["stale", "quarantined", "parked"])
def test_a_row_that_never_held_the_version_proves_nothing(state: str) -> None:
    assert conflicts.judge_old(delivery(3, id="second"), [holder(state)], []) == ("stale", None)


def test_a_version_stepped_over_is_late_at_both_ends_of_the_range_and_not_beyond() -> None:
    verdicts = [conflicts.judge_old(delivery(v, id="x"), [], [stepped(3, 5)])[0] for v in range(2, 7)]

    assert verdicts == ["stale", "late", "late", "late", "stale"]


def test_another_aggregates_range_is_not_this_ones() -> None:
    assert conflicts.judge_old(delivery(3, id="x"), [], [stepped(1, 9, "order/o2")])[0] == "stale"


def test_who_holds_a_skipped_version_goes_before_late() -> None:
    row = holder("skipped")

    assert conflicts.judge_old(delivery(3, id="second"), [row], [stepped(3, 3)]) == ("reused", row)


def test_what_is_put_aside_can_be_looked_at_with_its_bytes_and_its_reason() -> None:
    put = conflicts.put_aside(delivery(3, data=b"xyz"), IncidentKind.VERSION_REUSE, "why")

    assert (put.reason, put.detail, put.data, put.size) == ("version_reuse", "why", b"xyz", 3)
    assert (put.source, put.id, put.aggregate, put.version) == ("shop", "order/o1:3", "order/o1", 3)


def test_what_is_no_event_is_put_aside_by_its_stream_sequence_alone() -> None:
    put = conflicts.unreadable(unreadable(7))

    assert (put.seq, put.aggregate, put.version) == (7, None, None)


def test_the_states_that_hold_a_version_are_those_that_moved_the_position_over_it() -> None:
    assert set(InboxState) - conflicts._HOLDS == {InboxState.STALE, InboxState.PARKED, InboxState.QUARANTINED}
