"""The state table of heads and versions: a row a head, a column an arriving version."""

from __future__ import annotations

import pytest

from projectionist.core.states import AggregateState
from projectionist.projections.compiled.class_options import Baseline, Sequencing
from projectionist.projections.folding.version_verdict import (
    Position,
    Verdict,
    follows,
    judge,
    judge_stale,
    start,
)

CLEAR = Position(5)
GAP = Position(5, AggregateState.GAP, parked=2)
FAILED = Position(5, AggregateState.FAILED, parked=1)
WAITING = Position(5, AggregateState.WAITING, parked=1)
FINDING = Position(5, AggregateState.WAITING, finding="lost", parked=2)
DRAINING = Position(5, AggregateState.DRAINING, parked=3)

NEXT, STALE, BLOCKED, REUSED = Verdict.NEXT, Verdict.STALE, Verdict.BLOCKED, Verdict.REUSED


@pytest.mark.parametrize(
    ("position", "at_next", "beyond", "at_or_below"),
    [
        (CLEAR, NEXT, Verdict.GAP, STALE),
        (GAP, NEXT, Verdict.GAP, STALE),
        (FAILED, REUSED, BLOCKED, STALE),
        (WAITING, REUSED, BLOCKED, STALE),
        (FINDING, NEXT, Verdict.GAP, STALE),
        (DRAINING, REUSED, BLOCKED, STALE),
    ],
)
def test_the_head_is_asked_before_the_arithmetic(
    position: Position, at_next: Verdict, beyond: Verdict, at_or_below: Verdict
) -> None:
    assert judge(position, 6) is at_next
    assert [judge(position, version) for version in (7, 8, 1 << 62)] == [beyond] * 3
    assert [judge(position, version) for version in (5, 1, 0, -1)] == [at_or_below] * 4


@pytest.mark.parametrize(
    ("position", "above"),
    [(CLEAR, NEXT), (GAP, NEXT), (FAILED, BLOCKED), (WAITING, BLOCKED), (FINDING, NEXT), (DRAINING, BLOCKED)],
)
def test_monotonic_order_takes_any_higher_version_unless_the_head_stands(
    position: Position, above: Verdict
) -> None:
    assert [judge(position, version, "monotonic") for version in (6, 9)] == [above] * 2
    assert judge(position, 5, "monotonic") is STALE


@pytest.mark.parametrize("position", [CLEAR, GAP, FAILED, WAITING, FINDING, DRAINING])
def test_without_order_every_new_identity_is_next(position: Position) -> None:
    assert [judge(position, version, "unordered") for version in (1, 5, 6, 9)] == [NEXT] * 4


@pytest.mark.parametrize(
    ("taken", "stepped_over", "verdict"),
    [
        (False, (), STALE),
        (True, (), REUSED),
        (False, ((2, 4),), Verdict.LATE),
        (False, ((4, 4), (9, 9)), Verdict.LATE),
        (False, ((1, 3), (5, 5)), STALE),
        (True, ((2, 4),), REUSED),
    ],
)
def test_a_stale_candidate_is_reuse_lateness_or_harmless(
    taken: bool, stepped_over: tuple[tuple[int, int], ...], verdict: Verdict
) -> None:
    assert judge_stale(4, taken=taken, stepped_over=stepped_over) is verdict


@pytest.mark.parametrize(("baseline", "position"), [("first", 0), ("any", 0), (1, 0), (40, 39)])
def test_a_baseline_is_where_positions_start(baseline: Baseline, position: int) -> None:
    assert start(baseline) == position


@pytest.mark.parametrize("sequence", ["contiguous", "monotonic"])
def test_only_what_judge_calls_next_may_move_a_position(sequence: Sequencing) -> None:
    for position in (CLEAR, GAP, FAILED, WAITING, FINDING, DRAINING):
        for version in range(-1, 12):
            if judge(position, version, sequence) is NEXT:
                assert position.open
                assert version > position.version


def test_an_aggregate_of_which_nothing_is_known_stands_before_its_first_version() -> None:
    assert Position() == Position(0, AggregateState.CLEAR, None, 0)


@pytest.mark.parametrize(
    ("sequence", "after"),
    [("contiguous", (False, False, True, False)), ("monotonic", (False, False, True, True))],
)
def test_what_follows_a_version_is_above_it(sequence: Sequencing, after: tuple[bool, ...]) -> None:
    assert tuple(follows(version, 5, sequence) for version in (4, 5, 6, 7)) == after
