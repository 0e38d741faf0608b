"""What is done next in an operation, in which samples, and how its row is read."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.operation_reports import BEGAN, operation_report

from projectionist.core.digest import digest
from projectionist.core.states import OperationOutcome
from projectionist.runner.admin.parked_queries import ParkedFilter
from projectionist.runner.operations.operation import (
    MOST_TRIED,
    SAMPLES,
    OperationKind,
    SampleStanding,
    SampleStep,
    bounds,
    in_short,
    next_step,
)


def standing(*, waits: bool, tried: int = 0, done: int = 0, failed: int = 0) -> SampleStanding:
    """The third sample of a group."""
    return SampleStanding(1, 2, 7, 20, waits, tried, done, failed)


def test_samples_grow_and_the_last_one_is_all_the_rest() -> None:
    begins = bounds(OperationKind.RETRY_PARKED)

    def sample_of(place: int) -> int:
        return sum(first <= place for first in begins)

    sizes = [sum(sample_of(place) == number for place in range(1, 1000)) for number in range(5)]
    assert sizes == [*SAMPLES, 999 - sum(SAMPLES)]


@pytest.mark.parametrize("kind", [OperationKind.SKIP_PARKED, OperationKind.DISCARD_PARKED])
def test_what_is_decided_for_ever_has_no_samples(kind: OperationKind) -> None:
    assert bounds(kind) == []


def test_an_operation_ends_where_nothing_is_open() -> None:
    assert next_step(None) is SampleStep.END


@given(st.booleans(), st.integers(0, 100), st.integers(0, 100))
def test_a_group_is_left_exactly_where_a_sample_failed_and_none_of_it_got_through(
    waits: bool, done: int, failed: int
) -> None:
    step = next_step(standing(waits=waits, done=done, failed=failed))

    assert (step is SampleStep.LEAVE) == (failed > 0 and done == 0)
    assert step in {SampleStep.LEAVE, SampleStep.ACT if waits else SampleStep.LOOK}


def test_no_more_are_tried_at_a_time_than_somebody_comes_behind_with() -> None:
    assert next_step(standing(waits=True, tried=MOST_TRIED - 1)) is SampleStep.ACT
    assert next_step(standing(waits=True, tried=MOST_TRIED)) is SampleStep.LOOK


def test_what_a_newer_version_has_begun_is_told_as_it_is() -> None:
    one = operation_report(kind="retry_letters", outcome="moved_on", ended=BEGAN)

    assert (one.words, one.is_tried, one.state) == (("letters", "retry"), False, "moved on")


def test_rate_and_end_follow_from_what_was_settled_so_far() -> None:
    one = operation_report(done=15, failed=4, refused=1)

    assert (one.left, one.per_s, one.left_s) == (80, 2.0, 40.0)
    assert operation_report(done=20, is_carried_out=False).left_s is None
    assert (operation_report().per_s, operation_report().left_s) == (None, None)


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, "running"),
        ({"stop_asked_by": "bob"}, "stopping"),
        ({"is_carried_out": False}, "nobody carries it out"),
        ({"ended": BEGAN, "outcome": OperationOutcome.NONE_GOT_THROUGH}, "stopped by its sample"),
    ],
)
def test_its_state_is_told_in_a_few_words(given: dict[str, object], state: str) -> None:
    assert operation_report(**given).state == state


def test_it_is_well_where_nothing_is_left_to_look_at() -> None:
    ended = {"ended": BEGAN, "outcome": OperationOutcome.DONE, "matched": 2}

    for done, failed, refused in product(range(3), repeat=3):
        one = operation_report(**ended, done=done, failed=failed, refused=refused)
        assert one.is_well == ((done, failed, refused) == (2, 0, 0))


def test_the_text_of_an_error_is_told_by_its_digest() -> None:
    text = "ValueError: cannot digest bad …"

    for error in (text, digest(text)):
        assert in_short(ParkedFilter(consumer="Orders", error=error)) == {
            "consumer": "Orders",
            "error": f"[{digest(text)}]",
        }
