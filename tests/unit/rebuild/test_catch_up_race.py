"""When catching up is won, when it is lost, and how handlers' speed is taken into account."""

from __future__ import annotations

from math import inf

import pytest

from projectionist.core import clock
from projectionist.runner.history import fold_pace
from projectionist.runner.history.fold_pace import Pace, divided
from projectionist.runner.rebuild import catch_up_race
from projectionist.runner.rebuild.catch_up_race import CatchUpRace


def ran(rounds: list[int], each_s: float, monkeypatch: pytest.MonkeyPatch) -> CatchUpRace:
    """A race of these rounds, each so long."""
    now = 0.0
    monkeypatch.setattr(clock, "now", lambda: now)
    made = CatchUpRace(patience_s=60.0)
    for events in rounds:
        now += each_s
        made.round(events)
    return made


@pytest.mark.parametrize(
    ("rounds", "each_s", "lost"),
    [
        ([300_000, 90_000, 30_000, 9_000, 3_000], 60.0, False),
        ([90_000] * 6, 60.0, False),  # said in this round
        ([90_000] * 7, 60.0, True),
        ([90_000] * 6, 1.0, False),
        ([90_000] * 100, 1.0, True),
        ([int(90_000 * 0.88**n) for n in range(30)], 30.0, False),
        ([90_000, 100_000, 95_000, 99_000, 90_500, 120_000, 91_000], 60.0, True),
        ([9_000, 9_000, 9_000, 9_000, 9_000, 900], 60.0, False),
    ],
)
def test_a_race_is_lost_after_a_while_without_a_smaller_round(
    rounds: list[int], each_s: float, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ran(rounds, each_s, monkeypatch).lost is lost


def test_live_that_has_been_slowed_down_begins_the_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ran([90_000] * 6, 60.0, monkeypatch)
    made.again(inf)
    assert (made.lost, made.equal) == (False, 0)


@pytest.mark.parametrize(
    ("worked_s", "share", "buckets"),
    [
        (fold_pace.KEPT_S - 1, 0.001, 0),
        (fold_pace.KEPT_S, 1.0, 1),
        (fold_pace.KEPT_S, 0.5, 1),
        (fold_pace.KEPT_S, 0.1, 10),
        (fold_pace.KEPT_S, 1e-6, fold_pace.MOST_BUCKETS),
    ],
)
def test_a_bulk_is_divided_into_parts_of_a_minute(worked_s: float, share: float, buckets: int) -> None:
    assert divided(worked_s, share) == buckets


def test_few_events_say_nothing_of_the_speed_and_many_do() -> None:
    made = Pace()
    assert (made.window(), made.within(1.0, 500)) == (fold_pace.FIRST, 500)
    made.took(fold_pace.TELLING - 1, 1.0)
    assert made.window() == fold_pace.FIRST
    made.took(100, 0.6)
    assert (made.window(), made.within(0.5, 2_000)) == (41, 83)
    made.took(100, 0.000_1)
    assert (made.window(), made.within(0.5, 2_000)) == (fold_pace.MOST, 2_000)
    made.took(50, 500.0)
    assert made.within(0.5, 2_000) == 1


def test_the_shares_of_the_brake_rise() -> None:
    assert list(catch_up_race.SHARES) == sorted(set(catch_up_race.SHARES))
    assert all(0 < share < 1 for share in catch_up_race.SHARES)
