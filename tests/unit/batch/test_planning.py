"""What a plan says beside what is tried: whether there is more, whether bytes are lacking, whether to look at all."""

from __future__ import annotations

import pytest
from tests.support.deliveries import delivery, parked, position

from projectionist.core.states import AggregateState
from projectionist.projections.compiled.class_options import Sequencing
from projectionist.runner.batch.planning import LockedPosition, alone, may_move, plan_aggregate, put_by

AT = 2
"""Every aggregate here stands at version 2."""
GAP, WAITING = AggregateState.GAP, AggregateState.WAITING


@pytest.mark.parametrize(
    ("sequence", "new", "behind", "lacking", "limit", "said"),
    [
        ("contiguous", [], [3, 4], None, 2, (True, False)),
        ("contiguous", [], [3, 4], None, 3, (False, False)),
        ("contiguous", [], [3], 4, 9, (True, True)),
        ("contiguous", [3], [], 9, 9, (False, False)),
        ("monotonic", [], [3, 5], 9, 9, (True, True)),
    ],
    ids=[
        "as many as may be",
        "fewer",
        "up to a reference",
        "far before one",
        "before one, without order of steps",
    ],
)
def test_there_is_more_where_the_next_may_be_parked_though_its_bytes_may_lack(
    sequence: Sequencing,
    new: list[int],
    behind: list[int],
    lacking: int | None,
    limit: int,
    said: tuple[bool, bool],
) -> None:
    one = plan_aggregate(
        position(AT, GAP, parked=3),
        [delivery(version) for version in new],
        [parked(version) for version in behind],
        sequence,
        due=True,
        limit=limit,
        lacking=lacking,
    )
    assert (one.more, one.lacks) == said


def test_where_nothing_parked_was_read_the_next_version_alone_is_tried() -> None:
    fresh = [delivery(3), delivery(4)]
    one = plan_aggregate(position(AT, GAP, parked=3), fresh, [], "contiguous", due=True, limit=0)
    assert ([d.version for d in one.tried], one.more) == ([3], True)
    assert [d.version for d in one.held] == [4], "another event may be parked under that version"


def test_behind_a_head_that_stands_nothing_is_read_even_when_it_is_due() -> None:
    assert may_move(position(AT, GAP, parked=1), [], "contiguous", due=True)
    assert not may_move(position(AT, WAITING, parked=1), [], "contiguous", due=True)


def test_an_event_without_order_is_a_plan_of_its_own() -> None:
    for one in (alone(delivery()), put_by(delivery())):
        assert (one.position, one.more, one.due, one.lacks) == (None, False, False, False)
    assert alone(parked(1)).due


def test_a_position_is_due_only_where_that_was_seen() -> None:
    assert LockedPosition().is_due is False
