"""Waiting between tries: bounded whatever the attempt, and whatever the other side asks for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.core.retry_policy import LONGEST_ASKED, RetryPolicy, exhausted, interval, retry_after, wait

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
POLICY = RetryPolicy(initial_s=1, coefficient=2, maximum_s=300, attempts=10)
chances = st.floats(0, 1, exclude_max=True)


def test_the_interval_grows_by_the_coefficient_up_to_the_maximum() -> None:
    assert [interval(POLICY, n) for n in (1, 2, 3, 9, 10, 5000)] == [1, 2, 4, 256, 300, 300]


def test_the_policy_counts_the_first_try_too() -> None:
    assert not exhausted(POLICY, 9)
    assert exhausted(POLICY, 10)


@given(attempt=st.integers(1, 10_000), chance=chances)
def test_jitter_is_full_and_never_above_the_interval(attempt: int, chance: float) -> None:
    assert 0 <= wait(POLICY, attempt, chance=chance) <= interval(POLICY, attempt) <= POLICY.maximum_s


@given(attempt=st.integers(1, 100), chance=chances, asked=st.floats(0, LONGEST_ASKED))
def test_what_is_asked_for_is_clamped_both_ways(attempt: int, chance: float, asked: float) -> None:
    waited = wait(POLICY, attempt, chance=chance, asked_s=asked)
    assert POLICY.initial_s <= waited <= POLICY.maximum_s
    assert waited >= min(asked, POLICY.maximum_s)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("99999999999999999999999", LONGEST_ASKED),
        ("9" * 65, None),
        ("-5", None),
        ("1.5", None),
        ("1e9", None),
        ("١٢", None),
        ("", None),
        ("soon", None),
        ("Fri, 02 Jan 2026 03:05:05 GMT", 60),
        ("Fri, 02 Jan 2026 04:05:05 +0100", 60),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_ASKED),
        ("Fri, 99 Jan 2026 03:05:05 GMT", None),
        ("\0", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_or_nothing(value: str, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(st.text(max_size=80))
def test_no_retry_after_header_raises_or_leaves_the_bounds(value: str) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or 0 <= seconds <= LONGEST_ASKED


def test_a_policy_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="is more than maximum_s"):
        RetryPolicy(initial_s=10, maximum_s=1)
