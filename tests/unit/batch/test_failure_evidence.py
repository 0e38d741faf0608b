"""Whose fault it is that something does not get through: the table of what speaks for and against an event."""

from __future__ import annotations

from typing import Any

import pytest

from projectionist.core.postgres.error_class import Trouble
from projectionist.runner.batch.failure_evidence import (
    ENOUGH,
    LONGEST_S,
    MOST_PATIENCE_S,
    PATIENCE_S,
    Miss,
    Progress,
    Step,
    Way,
    judge,
)

SERVER, DATA, BUG = Trouble.INFRASTRUCTURE, Trouble.DATA, Trouble.BUG
APPLY, FAIL, BYTES = Way.APPLY, Way.FAIL, Way.PUT_ASIDE


@pytest.mark.parametrize(
    ("trouble", "way", "facts", "step"),
    [
        # Many together: tried again, then divided. What speaks of a value, or of us, is looked for at once.
        (SERVER, APPLY, {}, Step.AGAIN),
        (SERVER, APPLY, {"others": True, "waited": True}, Step.AGAIN),
        (SERVER, APPLY, {"long": True}, Step.SPLIT),
        (SERVER, APPLY, {"misses": ENOUGH}, Step.SPLIT),
        (DATA, APPLY, {}, Step.SPLIT),
        (BUG, APPLY, {}, Step.SPLIT),
        # One alone: to blame once others go through, or when it has kept all waiting for long.
        (SERVER, APPLY, {"single": True}, Step.AGAIN),
        (SERVER, APPLY, {"single": True, "long": True}, Step.AGAIN),
        (SERVER, APPLY, {"single": True, "others": True}, Step.AGAIN),
        (SERVER, APPLY, {"single": True, "misses": 99}, Step.AGAIN),
        (SERVER, APPLY, {"single": True, "others": True, "misses": ENOUGH}, Step.FAIL),
        (SERVER, APPLY, {"single": True, "waited": True}, Step.AGAIN),
        (SERVER, APPLY, {"single": True, "waited": True, "misses": ENOUGH}, Step.FAIL),
        (SERVER, APPLY, {"single": True, "known": True}, Step.FAIL),
        (BUG, APPLY, {"single": True}, Step.AGAIN),
        (BUG, APPLY, {"single": True, "others": True, "misses": ENOUGH}, Step.FAIL),
        (BUG, APPLY, {"single": True, "waited": True, "misses": ENOUGH}, Step.FAIL),
        (DATA, APPLY, {"single": True}, Step.FAIL),
        # It cannot be parked: the server's fault after all, or its values are refused there too.
        (SERVER, FAIL, {"single": True, "others": True}, Step.AGAIN),
        (SERVER, FAIL, {"single": True, "waited": True, "misses": 99}, Step.AGAIN),
        (SERVER, FAIL, {"single": True, "others": True, "misses": ENOUGH}, Step.PUT_ASIDE),
        (SERVER, FAIL, {"single": True, "exhausted": True, "misses": ENOUGH}, Step.LEAVE),
        (DATA, FAIL, {"single": True}, Step.PUT_ASIDE),
        (BUG, FAIL, {"single": True}, Step.PUT_ASIDE),
        # Nor kept as bytes: it stays where it is. Only where nothing at all goes through is that for somebody to know.
        (SERVER, BYTES, {"single": True, "misses": 99}, Step.AGAIN),
        (SERVER, BYTES, {"single": True, "others": True}, Step.AGAIN),
        (SERVER, BYTES, {"single": True, "others": True, "misses": ENOUGH}, Step.LEAVE),
        (SERVER, BYTES, {"others": True, "misses": ENOUGH}, Step.SPLIT),
        (SERVER, BYTES, {"single": True, "exhausted": True, "misses": ENOUGH}, Step.LEAVE),
        (DATA, BYTES, {}, Step.SPLIT),
        (DATA, BYTES, {"single": True}, Step.LEAVE),
        (BUG, BYTES, {"single": True, "others": True}, Step.LEAVE),
        (BUG, BYTES, {"single": True}, Step.RAISE),
    ],
)
def test_what_is_done_about_a_part_that_missed(
    trouble: Trouble, way: Way, facts: dict[str, Any], step: Step
) -> None:
    assert judge(Miss(trouble, way, **facts)) is step


def test_nothing_but_the_servers_trouble_is_tried_for_ever_and_nothing_is_failed_for_a_single_miss() -> None:
    for trouble in Trouble:
        for single in (False, True):
            once = judge(Miss(trouble, single=single, others=True, waited=True))
            assert once in ({Step.AGAIN} if trouble is SERVER else {Step.AGAIN, Step.SPLIT, Step.FAIL})
            often = judge(Miss(trouble, single=single, misses=99, waited=True))
            assert often is (Step.FAIL if single else Step.SPLIT)


def test_patience_doubles_with_each_new_event_that_is_put_aside_while_nothing_goes_through() -> None:
    progress = Progress()
    for _ in range(3):
        progress.put_aside(Miss(SERVER, single=True), 0.0)
        progress.put_aside(Miss(SERVER, single=True, known=True), 0.0)
    assert progress.patience_s == 8 * PATIENCE_S
    for _ in range(20):
        progress.put_aside(Miss(SERVER, single=True), 0.0)
    assert progress.patience_s == MOST_PATIENCE_S

    progress.got_through()
    progress.put_aside(Miss(SERVER, single=True, others=True), 0.0)
    assert progress.patience_s == PATIENCE_S


def test_an_hour_in_which_nothing_gets_through_fails_few_of_a_thousand_events() -> None:
    progress, failed = Progress(), 0
    for now in range(3600):
        for _ in range(1000 - failed):
            if progress.has_waited(0.0, float(now)):
                progress.put_aside(Miss(SERVER, single=True, waited=True), float(now))
                failed += 1
    assert 10 < failed < 20
    assert progress.has_waited(0.0, LONGEST_S)
