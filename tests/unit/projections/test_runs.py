"""Runs: what is tried, what is parked, and where the position stands afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.core.states import Head
from projectionist.projections.definition import Sequencing
from projectionist.projections.judge import Position, Verdict
from projectionist.projections.runs import Run, plan_run, stopped

CLEAR, GAP, FAILED, WAITING, DRAINING = Head.CLEAR, Head.GAP, Head.FAILED, Head.WAITING, Head.DRAINING


def planned(run: Run) -> tuple[tuple[int, ...], tuple[int, ...], int, Head, int]:
    return run.tries, run.parks, run.after.version, run.after.head, run.after.parked


@pytest.mark.parametrize(
    ("position", "new", "parked", "options", "expected"),
    [
        # CLEAR
        (Position(0), [1], [], {}, ((1,), (), 1, CLEAR, 0)),
        (Position(0), [3, 1, 2], [], {}, ((1, 2, 3), (), 3, CLEAR, 0)),
        (Position(0), [2], [], {}, ((), (2,), 0, GAP, 1)),
        (Position(0), [1, 3], [], {}, ((1,), (3,), 1, GAP, 1)),
        (Position(3), [1, 4], [], {}, ((4,), (), 4, CLEAR, 0)),
        # GAP
        (Position(0, GAP, parked=2), [1], [2, 3], {}, ((1, 2, 3), (), 3, CLEAR, 0)),
        (Position(0, GAP, parked=2), [1], [2, 4], {}, ((1, 2), (), 2, GAP, 1)),
        (Position(0, GAP, parked=2), [4], [2, 3], {}, ((), (4,), 0, GAP, 3)),
        (Position(0, GAP, parked=2), [1, 4], [2, 3], {}, ((1, 2, 3, 4), (), 4, CLEAR, 0)),
        (Position(0, GAP, parked=9), [1], [2, 3, 4], {"limit": 2}, ((1, 2, 3), (), 3, DRAINING, 7)),
        (Position(0, GAP, parked=9), [1], [2, 3, 5], {"limit": 2}, ((1, 2, 3), (), 3, GAP, 7)),
        (Position(0, GAP, parked=1), [], [2], {"due": True}, ((), (), 0, GAP, 1)),
        (Position(0, GAP, parked=1), [], [1], {"due": True}, ((1,), (), 1, CLEAR, 0)),
        # FAILED
        (Position(0, FAILED, parked=1), [2, 3], [], {}, ((), (2, 3), 0, FAILED, 3)),
        (Position(0, FAILED, parked=1), [], [1], {"due": True}, ((1,), (), 1, CLEAR, 0)),
        (Position(0, FAILED, parked=3), [], [1, 2, 3], {"due": True}, ((1,), (), 1, DRAINING, 2)),
        (Position(0, FAILED, parked=2), [], [1, 3], {"due": True}, ((1,), (), 1, GAP, 1)),
        (Position(0, FAILED, parked=1), [2], [1], {"due": True}, ((1,), (2,), 1, DRAINING, 1)),
        # WAITING for code or a person; for versions that cannot be had
        (Position(0, WAITING, parked=1), [2], [], {}, ((), (2,), 0, WAITING, 2)),
        (Position(0, WAITING, finding=True, parked=1), [3], [2], {}, ((), (3,), 0, WAITING, 2)),
        (Position(0, WAITING, finding=True, parked=1), [1], [2], {}, ((1, 2), (), 2, CLEAR, 0)),
        (Position(0, WAITING, finding=True, parked=1), [1], [3], {}, ((1,), (), 1, GAP, 1)),
        # DRAINING
        (Position(0, DRAINING, parked=2), [3], [], {}, ((), (3,), 0, DRAINING, 3)),
        (Position(0, DRAINING, parked=2), [3], [1, 2], {"due": True}, ((1, 2, 3), (), 3, CLEAR, 0)),
        (
            Position(0, DRAINING, parked=3),
            [],
            [1, 2, 3],
            {"due": True, "limit": 2},
            ((1, 2), (), 2, DRAINING, 1),
        ),
    ],
)
def test_contiguous_order(
    position: Position,
    new: list[int],
    parked: list[int],
    options: dict[str, int],
    expected: tuple[object, ...],
) -> None:
    assert planned(plan_run(position, new, parked, **options)) == expected  # type: ignore[arg-type] # a table of cases


@pytest.mark.parametrize(
    ("position", "new", "parked", "options", "expected"),
    [
        (Position(3), [9, 5], [], {}, ((5, 9), (), 9, CLEAR, 0)),
        (Position(3), [2], [], {}, ((), (), 3, CLEAR, 0)),
        (Position(3, FAILED, parked=1), [4, 9], [], {}, ((), (4, 9), 3, FAILED, 3)),
        (Position(3, FAILED, parked=3), [], [4, 5, 9], {"due": True}, ((4,), (), 4, DRAINING, 2)),
        (Position(4, DRAINING, parked=2), [7, 10], [5, 9], {"due": True}, ((5, 7, 9, 10), (), 10, CLEAR, 0)),
        (
            Position(4, DRAINING, parked=3),
            [6, 8],
            [5, 7, 9],
            {"due": True, "limit": 1},
            ((5, 6), (8,), 6, DRAINING, 3),
        ),
    ],
)
def test_monotonic_order(
    position: Position,
    new: list[int],
    parked: list[int],
    options: dict[str, int],
    expected: tuple[object, ...],
) -> None:
    run = plan_run(position, new, parked, sequence="monotonic", **options)  # type: ignore[arg-type] # as above
    assert planned(run) == expected


def test_every_new_version_gets_its_verdict() -> None:
    run = plan_run(Position(3, GAP, parked=1), [2, 4, 6, 7], [6])
    assert run.verdicts == {2: Verdict.STALE, 4: Verdict.NEXT, 6: Verdict.REUSED, 7: Verdict.GAP}
    assert (run.tries, run.parks) == ((4,), (7,))


def test_a_version_that_would_be_next_and_has_to_wait_is_called_blocked() -> None:
    run = plan_run(Position(4, DRAINING, parked=3), [8], [5, 7, 9], sequence="monotonic", due=True, limit=1)
    assert run.verdicts == {8: Verdict.BLOCKED}


@pytest.mark.parametrize(("waits", "head"), [(True, WAITING), (False, FAILED)])
def test_a_failed_try_stops_the_run_before_it_and_parks_what_is_new_behind(waits: bool, head: Head) -> None:
    run = plan_run(Position(0, GAP, parked=2), [1, 4, 6], [2, 3])
    assert run.tries == (1, 2, 3, 4)
    assert stopped(run, 3, waits=waits) == (Position(2, head, parked=3), (4, 6))
    assert stopped(run, 1, waits=waits) == (Position(0, head, parked=5), (1, 4, 6))
    assert stopped(run, 4, waits=waits) == (Position(3, head, parked=2), (4, 6))


class Model:
    """One aggregate as tables would hold it, driven by the plans alone."""

    def __init__(self, sequence: Sequencing, limit: int) -> None:
        self.sequence, self.limit = sequence, limit
        self.position, self.parked, self.applied = Position(), list[int](), list[int]()

    def arrive(self, new: list[int], fails: Callable[[int], bool], *, due: bool = False) -> None:
        fresh = [version for version in dict.fromkeys(new) if version not in {*self.parked, *self.applied}]
        read = sorted(self.parked)[: self.limit + 1] if self.position.open or due else []
        run = plan_run(self.position, fresh, read, sequence=self.sequence, limit=self.limit, due=due)
        assert Verdict.REUSED not in run.verdicts.values()
        at = next((version for version in run.tries if fails(version)), None)
        after, parks = (run.after, run.parks) if at is None else stopped(run, at, waits=False)
        done = [version for version in run.tries if at is None or version < at]
        self.applied += done
        self.parked = [version for version in self.parked if version not in done] + list(parks)
        self.position = after
        assert after.parked == len(self.parked)
        assert (after.head is CLEAR) == (not self.parked)
        if after.head in (DRAINING, FAILED) and self.sequence == "contiguous":
            assert min(self.parked) == after.version + 1
        if after.head is GAP:
            assert min(self.parked) > after.version + 1


@given(
    st.permutations(range(1, 13)),
    st.lists(st.integers(1, 4), min_size=12, max_size=12),
    st.sets(st.integers(1, 12), max_size=4),
    st.integers(1, 5),
)
def test_any_order_of_arrival_and_failure_ends_with_every_version_applied_once_in_order(
    order: list[int], sizes: list[int], poison: set[int], limit: int
) -> None:
    model = Model("contiguous", limit)
    waiting = list(order)
    for size in sizes:
        model.arrive(waiting[:size], lambda version: version in poison)
        waiting = waiting[size:]
        if model.position.head in (FAILED, DRAINING):
            model.arrive(waiting[:1], lambda version: version in poison, due=True)
            waiting = waiting[1:]
    model.arrive(waiting, lambda version: version in poison)
    for _ in range(60):
        model.arrive([], lambda _: False, due=True)
    assert model.applied == list(range(1, 13))
    assert model.position == Position(12)


@given(
    st.lists(st.integers(1, 30), unique=True, min_size=1),
    st.lists(st.integers(1, 4), min_size=30, max_size=30),
    st.sets(st.integers(1, 30), max_size=5),
    st.integers(1, 5),
)
def test_monotonic_order_never_goes_back_and_leaves_nothing_parked(
    order: list[int], sizes: list[int], poison: set[int], limit: int
) -> None:
    model = Model("monotonic", limit)
    waiting = list(order)
    for size in sizes:
        model.arrive(waiting[:size], lambda version: version in poison)
        waiting = waiting[size:]
    for _ in range(60):
        model.arrive([], lambda _: False, due=True)
    assert model.applied == sorted(model.applied)
    assert model.position == Position(model.applied[-1])
    assert max(order) == model.applied[-1]
