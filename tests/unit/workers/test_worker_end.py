"""What the end of a worker means."""

from __future__ import annotations

import signal

import pytest

from projectionist.ops.workers.worker_end import (
    AGAIN,
    WELL_S,
    WorkerEnd,
    all_hopeless,
    ending_in_words,
    pause_s,
    row_of,
)

REFUSED, KILLED, STOPPED = WorkerEnd(1), WorkerEnd(-signal.SIGKILL), WorkerEnd(0)
SERVED = WorkerEnd(1, ready_s=3)


@pytest.mark.parametrize(
    ("ending", "hopeless"),
    [
        (REFUSED, True),
        (WorkerEnd(2), True),
        (SERVED, False),
        (KILLED, False),
        (STOPPED, False),
        (WorkerEnd(-signal.SIGSEGV, ready_s=100), False),
    ],
)
def test_hopeless_is_who_said_no_before_it_could_do_anything(ending: WorkerEnd, hopeless: bool) -> None:
    assert ending.hopeless is hopeless


@pytest.mark.parametrize(
    ("last", "over"),
    [
        ([REFUSED, REFUSED], True),
        ([REFUSED], True),
        ([REFUSED, None], False),
        ([REFUSED, KILLED], False),
        ([SERVED, REFUSED], False),
    ],
)
def test_it_is_given_up_when_nothing_is_to_be_hoped_of_any(last: list[WorkerEnd | None], over: bool) -> None:
    assert all_hopeless(last) is over


def test_a_pause_grows_in_a_row_and_begins_anew_after_one_that_went_well() -> None:
    pauses, row = [], 0
    for _ in range(12):
        row = row_of(KILLED, row)
        pauses.append(pause_s(row, chance=0))
    assert pauses[:3] == [0.5, 1, 2]
    assert pauses[-1] == AGAIN.maximum_s
    assert row_of(WorkerEnd(1, ready_s=WELL_S - 1), row) == row + 1
    assert row_of(WorkerEnd(1, ready_s=WELL_S), row) == 1


def test_workers_that_end_together_do_not_come_back_together() -> None:
    assert pause_s(1, chance=0) < pause_s(1, chance=0.9) <= AGAIN.maximum_s
    assert pause_s(1_000, chance=0.9) == AGAIN.maximum_s


def test_an_end_is_told_in_words() -> None:
    assert [ending_in_words(code) for code in (1, -9)] == ["ended with exit code 1", "was killed by SIGKILL"]
