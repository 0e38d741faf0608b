"""Which events a shadow folds, and in which order: none that live has not applied, each once, without a hole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.deliveries import delivery

from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.history import applied_filter as judging
from projectionist.runner.history.applied_filter import AggregateProgress, AppliedFilter

NAME = delivery(1).aggregate or ""
OTHER = "order/other"


def decided(kind: str, version: int, upto: int | None = None, **given: Any) -> dict[str, Any]:
    row = dict.fromkeys(("seq", "source", "id", "headers", "data"))
    return row | {"aggregate": NAME, "version": version, "upto": upto, "kind": kind} | given


def judge(cap: int, *rows: dict[str, Any], sequence: str = "contiguous", **given: Any) -> AppliedFilter:
    return AppliedFilter(
        sequence,
        {NAME: AggregateProgress(0, cap), OTHER: AggregateProgress(0, cap)},
        Decisions(rows),
        **given,
    )


def folded(one: AppliedFilter, events: list[Delivery]) -> list[int | None]:
    """The versions in the order in which they are folded, asked for as the bulk asks."""
    found: list[int | None] = []
    for event in events:
        taken = [event] if one.next(event) is not None else one.take(event)
        found += [d.version for d in taken]
    return found


def events(*versions: int) -> list[Delivery]:
    return [delivery(version, seq=seq, id=f"e{seq}") for seq, version in enumerate(versions, 1)]


@pytest.mark.parametrize(
    ("arrive", "cap", "expected", "left"),
    [
        ([1, 2, 3], 3, [1, 2, 3], []),
        ([1, 2, 3], 2, [1, 2], []),  # the third is for live
        ([1, 1, 2], 2, [1, 2], []),  # twice
        ([2, 3, 1], 3, [1, 2, 3], []),  # late
        ([2, 1, 4, 3], 4, [1, 2, 3, 4], []),
        ([1, 3], 3, [1], [(NAME, 1, 3)]),  # lost
        ([2, 3], 3, [], [(NAME, 0, 3)]),
    ],
)
def test_each_version_is_folded_once_and_in_its_turn(
    arrive: list[int], cap: int, expected: list[int], left: list[tuple[str, int, int]]
) -> None:
    one = judge(cap)
    assert folded(one, events(*arrive)) == expected
    assert [straggler for straggler in one.incomplete() if straggler[0] == NAME] == left


@pytest.mark.parametrize(
    ("rows", "arrive", "expected"),
    [
        ([decided("skip", 2)], [1, 2, 3], [1, 3]),
        ([decided("skip", 1)], [1, 2, 3], [2, 3]),
        ([decided("skip", 2)], [1, 3, 2], [1, 3]),
        ([decided("accept_gap", 2, 3)], [1, 4], [1, 4]),
        ([decided("accept_gap", 2, 3)], [4, 1], [1, 4]),
        ([decided("accept_gap", 2, 3)], [1, 3, 4], [1, 4]),  # what came after all stays stepped over
    ],
)
def test_what_was_decided_is_decided_again(
    rows: list[dict[str, Any]], arrive: list[int], expected: list[int]
) -> None:
    one = judge(4, *rows)
    assert folded(one, events(*arrive)) == expected


def test_of_two_claimants_the_winner_is_folded() -> None:
    first, loser, winner = events(1, 2, 2)
    one = judge(2, decided("winner", 2, source=winner.source, id=winner.id))
    assert one.next(first) is None  # decisions are looked at event by event
    assert [*one.take(first), *one.take(loser), *one.take(winner)] == [first, winner]


def test_what_live_left_out_or_has_never_met_is_left_out() -> None:
    one = judge(3, apart={2})
    assert folded(one, events(1, 2, 2)) == [1, 2]
    stranger = delivery(1, aggregate="order/stranger")
    assert (one.next(stranger), list(one.take(stranger)), one.ahead) == (None, [], 1)


def test_without_order_all_is_folded_but_what_was_left_out() -> None:
    one = judge(0, sequence="unordered", apart={2})
    assert folded(one, events(5, 1, 5)) == [5, 5]


def test_more_than_can_be_held_is_left_to_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MOST_HELD", 1)
    one = judge(3)
    assert folded(one, events(2, 3, 1)) == [1, 2]
    assert (NAME, 2, 3) in list(one.incomplete())


@given(st.data(), st.integers(1, 6), st.sets(st.integers(2, 6)))
def test_whatever_the_order_of_arrival_the_same_is_folded(
    data: st.DataObject, cap: int, skipped: set[int]
) -> None:
    versions = [version for version in range(1, 8) for _ in range(data.draw(st.integers(1, 2)))]
    arrive = data.draw(st.permutations(versions))
    found = folded(judge(cap, *(decided("skip", version) for version in skipped)), events(*arrive))
    assert found == [version for version in range(1, cap + 1) if version not in skipped]
