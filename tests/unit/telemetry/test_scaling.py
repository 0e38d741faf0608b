"""How many processes a consumer wants."""

from __future__ import annotations

import msgspec
import pytest

from projectionist.runner.telemetry.scaling import ConsumerLoad, MeasuredPace, measured, wanted

CALM = ConsumerLoad(at=0, settled=0, behind=0, runners=1)


def load(**change: object) -> ConsumerLoad:
    return msgspec.structs.replace(CALM, **change)


def want(now: ConsumerLoad, pace: MeasuredPace, least: int = 1) -> int | None:
    return wanted(now, pace, least=least, catch_up_s=60).wanted


@pytest.mark.parametrize(
    ("now", "pace", "expected"),
    [
        (load(), MeasuredPace(), 1),
        (load(runners=0), MeasuredPace(), 1),
        (load(behind=None), MeasuredPace(0, 100), None),
        (load(behind=5, runners=0), MeasuredPace(), 1),
        (load(behind=5, runners=3), MeasuredPace(), 3),
        (load(behind=6_000), MeasuredPace(0, 100), 1),
        (load(behind=6_001), MeasuredPace(0, 100), 2),
        (load(behind=60_000), MeasuredPace(50, 100), 11),
        (load(behind=0, runners=4), MeasuredPace(350, 100), 4),
        (load(behind=0, runners=4), MeasuredPace(0, 100), 1),
        (load(behind=60_000, runners=2, halted=True), MeasuredPace(0, 100), 2),
    ],
    ids=[
        "nothing to do",
        "nobody runs",
        "nobody tells",
        "nobody runs and something waits",
        "nothing measured yet",
        "just in time",
        "a little more",
        "what waits and what comes",
        "what comes alone",
        "the rush is over",
        "paused",
    ],
)
def test_it_wants_what_keeps_up_and_catches_up_in_time(
    now: ConsumerLoad, pace: MeasuredPace, expected: int | None
) -> None:
    assert want(now, pace) == expected


def test_it_never_wants_fewer_than_are_meant_to_run() -> None:
    assert want(load(), MeasuredPace(), least=2) == 2
    assert want(load(behind=60_000), MeasuredPace(0, 1_000), least=2) == 2


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (load(behind=10_000), load(at=10, settled=2_000, behind=9_000), MeasuredPace(100, 200)),
        (
            load(behind=10_000, runners=2),
            load(at=10, settled=2_000, behind=9_000, runners=2),
            MeasuredPace(100, 100),
        ),
        (load(behind=3), load(at=10, settled=2_000, behind=2), MeasuredPace(199.9, None)),
        (load(behind=9_000), load(at=10, settled=9_000, behind=0), MeasuredPace(0, None)),
        (load(behind=50), load(at=10, settled=0, behind=50), MeasuredPace(0, None)),
        (load(behind=9_000), load(at=10, settled=100, behind=9_000, runners=2), MeasuredPace(10, None)),
        (load(behind=9_000, halted=True), load(at=10, settled=100, behind=9_000), MeasuredPace(10, None)),
        (load(behind=None), load(at=10, settled=2_000, behind=9_000), MeasuredPace()),
        (load(behind=9_000), load(at=0.1, settled=2_000, behind=9_000), MeasuredPace()),
        (load(behind=9_000), load(at=-5, settled=2_000, behind=9_000), MeasuredPace()),
    ],
    ids=[
        "busy",
        "two are busy",
        "keeps up, with a few in flight",
        "became idle meanwhile",
        "nothing gets through",
        "another joined",
        "was paused",
        "nobody told",
        "too soon",
        "the clock went back",
    ],
)
def test_what_one_can_settle_is_measured_while_it_is_busy(
    before: ConsumerLoad, now: ConsumerLoad, expected: MeasuredPace
) -> None:
    found = measured(MeasuredPace(), before, now)
    assert found.arriving_per_s == pytest.approx(expected.arriving_per_s)
    assert found.per_s == expected.per_s


def test_what_was_measured_before_counts_as_much_as_the_last_look() -> None:
    assert (
        measured(MeasuredPace(0, 100), load(behind=9_000), load(at=10, settled=2_000, behind=9_000)).per_s
        == 150
    )


def test_seconds_behind_are_those_of_who_runs() -> None:
    pace = MeasuredPace(0, 100)
    assert wanted(load(behind=6_000, runners=2), pace, least=1, catch_up_s=60).behind_s == 30
    assert wanted(load(behind=0), MeasuredPace(), least=1, catch_up_s=60).behind_s == 0
    assert wanted(load(behind=6_000, runners=0), pace, least=1, catch_up_s=60).behind_s is None
    assert wanted(load(behind=None), pace, least=1, catch_up_s=60).behind_s is None


def test_a_rush_is_followed_up_and_down_without_swinging() -> None:
    """A consumer of 100 events a second and process, 350 a second for five minutes, looked at every 15 s and obeyed."""
    pace, runners, behind, settled, seen = MeasuredPace(), 1, 0, 0, []
    before = load()
    for at in range(15, 901, 15):
        come = 350 * 15 if at <= 300 else 10 * 15
        done = min(behind + come, 100 * 15 * runners)
        behind, settled = behind + come - done, settled + done
        now = load(at=at, settled=settled, behind=behind, runners=runners)
        pace, before = measured(pace, before, now), now
        runners = want(now, pace) or 0
        seen.append(runners)
    assert max(seen) <= 8, seen
    assert behind == 0
    assert seen[-10:] == [1] * 10
    turns = sum(1 for a, b, c in zip(seen, seen[1:], seen[2:], strict=False) if (b - a) * (c - b) < 0)
    assert turns <= 2, seen
