"""What a failure means for the event."""

from __future__ import annotations

import pytest

from projectionist.core.printable_text import storable
from projectionist.core.retry_policy import RetryPolicy
from projectionist.runner.batch.retry_policy import MOST_STACK, MOST_TEXT, FailureReason, next_attempt

POLICY = RetryPolicy(initial_s=1.0, coefficient=2.0, maximum_s=60.0, attempts=3)


@pytest.mark.parametrize(
    "kind", [FailureReason.RAISED, FailureReason.REFUSED, FailureReason.UNREADABLE, FailureReason.CRASHED]
)
def test_what_the_same_code_will_not_mend_waits_for_new_code_or_a_person(kind: FailureReason) -> None:
    failed = next_attempt(kind, 0, None, POLICY, error_class="E", error="no", chance=0.5)

    assert failed.delay is None
    assert failed.attempts == 1


def test_a_retry_comes_later_each_time_until_the_budget_is_spent() -> None:
    delays = [
        next_attempt(FailureReason.RETRY, tries, None, POLICY, error_class="E", error="no", chance=1.0).delay
        for tries in range(3)
    ]

    assert delays[0] is not None
    assert delays[1] is not None
    assert 0 < delays[0] < delays[1]
    assert delays[2] is None


@pytest.mark.parametrize("kind", [FailureReason.DATABASE, FailureReason.ALONE, FailureReason.FAULT])
def test_an_error_that_may_pass_is_retried_slowly_until_the_budget_is_spent(
    kind: FailureReason,
) -> None:
    delays = [
        next_attempt(kind, tries, None, POLICY, error_class="E", error="no", chance=0.0).delay
        for tries in range(3)
    ]

    assert delays == [60.0, 60.0, None]
    assert next_attempt(kind, 9, 99, POLICY, error_class="E", error="no", chance=1.0).delay == 1860.0


def test_an_event_that_ends_sessions_is_tried_three_times_at_most() -> None:
    many = RetryPolicy(attempts=10)
    tried = [
        next_attempt(FailureReason.SESSION, tries, None, many, error_class="E", error="no", chance=0.5)
        for tries in range(3)
    ]

    assert [one.delay is None for one in tried] == [False, False, True]
    assert tried[0].budget == 3


@pytest.mark.parametrize(
    ("kind", "given", "budget"),
    [
        (FailureReason.SESSION, None, 3),
        (FailureReason.SESSION, 7, 7),
        (FailureReason.RETRY, None, 10),
        (FailureReason.RETRY, 2, 2),
    ],
)
def test_a_given_budget_counts_and_else_the_policys_or_that_of_sessions(
    kind: FailureReason, given: int | None, budget: int
) -> None:
    many = RetryPolicy(attempts=10)
    assert next_attempt(kind, 0, given, many, error_class="E", error="no", chance=0.5).budget == budget


def test_the_schedule_is_spread_by_chance() -> None:
    soon, late = (
        next_attempt(FailureReason.RETRY, 1, None, POLICY, error_class="E", error="no", chance=chance).delay
        for chance in (0.0, 1.0)
    )

    assert soon is not None
    assert late is not None
    assert soon < late


def test_a_handler_may_ask_for_a_longer_wait() -> None:
    failed = next_attempt(
        FailureReason.RETRY, 0, None, POLICY, error_class="Retry", error="later", asked_s=30.0, chance=0.0
    )

    assert failed.delay is not None
    assert failed.delay >= 30.0


def test_a_budget_of_its_own_goes_before_the_policy() -> None:
    again = next_attempt(FailureReason.RETRY, 3, 6, POLICY, error_class="E", error="no", chance=0.5)

    assert again.delay is not None
    assert (again.attempts, again.budget) == (4, 6)


def test_an_error_is_stored_as_text_that_postgresql_takes_and_of_bounded_length() -> None:
    failed = next_attempt(
        *(FailureReason.RAISED, 0, None, POLICY),
        error_class="E" * 9_999,
        error="\0\ud800" + "x" * 9_999,
        stack="y" * 9_999,
        chance=0.5,
    )

    assert failed.error is not None
    assert failed.error.startswith("\\0\\ud800x")
    assert len(failed.error) == MOST_TEXT
    assert len(failed.error_class or "") == MOST_TEXT
    assert len(failed.stack or "") == MOST_STACK
    assert storable("plain") == "plain"
