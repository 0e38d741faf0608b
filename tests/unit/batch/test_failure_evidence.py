"""Whose fault it is that something does not get through: the table of what speaks for and against an event."""

from __future__ import annotations

from typing import Any

import pytest

from projectionist.core.postgres.error_class import ErrorClass
from projectionist.runner.batch.failure_evidence import (
    ENOUGH,
    LONGEST_S,
    MOST_PATIENCE_S,
    ConsumerProgress,
    FailedPart,
    NextStep,
    Way,
    judge,
)
from projectionist.runner.batch.times import USUAL

SERVER, DATA, BUG = ErrorClass.INFRASTRUCTURE, ErrorClass.DATA, ErrorClass.BUG
APPLY, FAIL, BYTES = Way.APPLY, Way.FAIL, Way.PUT_ASIDE

PATIENCE_S = USUAL.patience_s


@pytest.mark.parametrize(
    ("trouble", "way", "facts", "step"),
    [
        # Many together: tried again, then divided. What speaks of a value, or of us, is looked for at once.
        (SERVER, APPLY, {}, NextStep.AGAIN),
        (SERVER, APPLY, {"others": True, "waited": True}, NextStep.AGAIN),
        (SERVER, APPLY, {"long": True}, NextStep.SPLIT),
        (SERVER, APPLY, {"misses": ENOUGH}, NextStep.SPLIT),
        (DATA, APPLY, {}, NextStep.SPLIT),
        (BUG, APPLY, {}, NextStep.SPLIT),
        # One alone: to blame once others go through, or when it has kept all waiting for long.
        (SERVER, APPLY, {"single": True}, NextStep.AGAIN),
        (SERVER, APPLY, {"single": True, "long": True}, NextStep.AGAIN),
        (SERVER, APPLY, {"single": True, "others": True}, NextStep.AGAIN),
        (SERVER, APPLY, {"single": True, "misses": 99}, NextStep.AGAIN),
        (SERVER, APPLY, {"single": True, "others": True, "misses": ENOUGH}, NextStep.FAIL),
        (SERVER, APPLY, {"single": True, "waited": True}, NextStep.AGAIN),
        (SERVER, APPLY, {"single": True, "waited": True, "misses": ENOUGH}, NextStep.FAIL),
        (SERVER, APPLY, {"single": True, "known": True}, NextStep.FAIL),
        (BUG, APPLY, {"single": True}, NextStep.AGAIN),
        (BUG, APPLY, {"single": True, "others": True, "misses": ENOUGH}, NextStep.FAIL),
        (BUG, APPLY, {"single": True, "waited": True, "misses": ENOUGH}, NextStep.FAIL),
        (DATA, APPLY, {"single": True}, NextStep.FAIL),
        # It cannot be parked: the server's fault after all, or its values are refused there too.
        (SERVER, FAIL, {"single": True, "others": True}, NextStep.AGAIN),
        (SERVER, FAIL, {"single": True, "waited": True, "misses": 99}, NextStep.AGAIN),
        (SERVER, FAIL, {"single": True, "others": True, "misses": ENOUGH}, NextStep.PUT_ASIDE),
        (SERVER, FAIL, {"single": True, "known": True}, NextStep.AGAIN),
        (SERVER, FAIL, {"single": True, "known": True, "misses": ENOUGH}, NextStep.PUT_ASIDE),
        (SERVER, FAIL, {"single": True, "exhausted": True, "misses": ENOUGH}, NextStep.LEAVE),
        (DATA, FAIL, {"single": True}, NextStep.PUT_ASIDE),
        (BUG, FAIL, {"single": True}, NextStep.PUT_ASIDE),
        # Nor kept as bytes: it stays where it is. Only where nothing at all goes through is that for somebody to know.
        (SERVER, BYTES, {"single": True, "misses": 99}, NextStep.AGAIN),
        (SERVER, BYTES, {"single": True, "others": True}, NextStep.AGAIN),
        (SERVER, BYTES, {"single": True, "others": True, "misses": ENOUGH}, NextStep.LEAVE),
        (SERVER, BYTES, {"others": True, "misses": ENOUGH}, NextStep.SPLIT),
        (SERVER, BYTES, {"single": True, "exhausted": True, "misses": ENOUGH}, NextStep.LEAVE),
        (DATA, BYTES, {}, NextStep.SPLIT),
        (DATA, BYTES, {"single": True}, NextStep.LEAVE),
        (BUG, BYTES, {"single": True, "others": True}, NextStep.LEAVE),
        (BUG, BYTES, {"single": True}, NextStep.RAISE),
    ],
)
def test_what_is_done_about_a_part_that_missed(
    trouble: ErrorClass, way: Way, facts: dict[str, Any], step: NextStep
) -> None:
    assert judge(FailedPart(trouble, way, **facts)) is step


def test_only_trouble_of_the_server_is_retried_for_ever_and_one_miss_fails_nothing() -> None:
    for trouble in ErrorClass:
        for single in (False, True):
            once = judge(FailedPart(trouble, single=single, others=True, waited=True))
            assert once in (
                {NextStep.AGAIN} if trouble is SERVER else {NextStep.AGAIN, NextStep.SPLIT, NextStep.FAIL}
            )
            often = judge(FailedPart(trouble, single=single, misses=99, waited=True))
            assert often is (NextStep.FAIL if single else NextStep.SPLIT)


def test_patience_doubles_with_each_new_event_set_aside_while_nothing_goes_through() -> None:
    progress = ConsumerProgress(PATIENCE_S)
    for _ in range(3):
        progress.put_aside(FailedPart(SERVER, single=True), 0.0)
        progress.put_aside(FailedPart(SERVER, single=True, known=True), 0.0)
    assert progress.patience_s == 8 * PATIENCE_S
    for _ in range(20):
        progress.put_aside(FailedPart(SERVER, single=True), 0.0)
    assert progress.patience_s == MOST_PATIENCE_S

    progress.got_through()
    progress.put_aside(FailedPart(SERVER, single=True, others=True), 0.0)
    assert progress.patience_s == PATIENCE_S


def test_an_hour_in_which_nothing_gets_through_fails_few_of_a_thousand_events() -> None:
    progress, failed = ConsumerProgress(PATIENCE_S), 0
    for now in range(3600):
        for _ in range(1000 - failed):
            if progress.has_waited(0.0, float(now)):
                progress.put_aside(FailedPart(SERVER, single=True, waited=True), float(now))
                failed += 1
    assert 10 < failed < 20
    assert progress.has_waited(0.0, LONGEST_S)


def test_patience_begins_with_the_first_miss_and_anew_with_what_was_put_aside() -> None:
    progress = ConsumerProgress(PATIENCE_S)
    assert not progress.has_waited(0.5, 0.4 + PATIENCE_S)
    assert progress.has_waited(0.5, 0.5 + PATIENCE_S)
    progress.put_aside(FailedPart(SERVER, single=True), 100.0)
    assert not progress.has_waited(0.5, 99.0 + 2 * PATIENCE_S)
    assert progress.has_waited(0.5, 100.0 + 2 * PATIENCE_S)


def test_the_longest_patience_is_counted_from_the_first_miss_however_late_that_was() -> None:
    progress = ConsumerProgress(PATIENCE_S)
    progress.put_aside(FailedPart(SERVER, single=True), 2 * LONGEST_S)
    assert not progress.has_waited(2 * LONGEST_S, 2 * LONGEST_S + 1)


def test_each_batch_that_applied_something_counts() -> None:
    progress = ConsumerProgress(PATIENCE_S)
    counts = [progress.applied]
    for _ in range(2):
        progress.got_through()
        counts.append(progress.applied)
    assert counts == [0, 1, 2]
