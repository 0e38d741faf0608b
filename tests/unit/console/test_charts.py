"""Charts are geometry that fits into its picture, and a sentence for whoever does not see it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.console.charts import (
    BARS_HEIGHT,
    BARS_WIDTH,
    HEIGHT,
    WIDTH,
    applied,
    failed,
    failures,
    pace,
)


@given(numbers=st.lists(st.integers(0, 10**12), max_size=60))
def test_a_line_stays_inside_of_its_picture(numbers: list[int]) -> None:
    drawn = str(applied(numbers))
    [points] = re.findall(r'<path d="M([^"]*)"', drawn)
    places = [float(one) for one in points.split()]
    assert len(places) == 2 * len(numbers)
    assert all(0 <= x <= WIDTH for x in places[::2])
    assert all(0 <= y <= HEIGHT for y in places[1::2])


def test_the_largest_number_is_at_the_top_and_nought_at_the_bottom() -> None:
    drawn = str(applied([0, 5, 10]))
    assert "M0.0 19.0 48.0 10.0 96.0 1.0" in drawn
    assert 'aria-label="applied a minute, last 3 minutes: 0 to 10, in the last one 10"' in drawn


def test_an_hour_without_anything_says_so() -> None:
    assert 'aria-label="nothing applied in the last 60 minutes"' in str(applied([0] * 60))


@given(numbers=st.lists(st.integers(0, 10**12), max_size=60))
def test_bars_stay_inside_of_their_picture_one_for_each_that_is_not_nought(
    numbers: list[int],
) -> None:
    drawn = re.findall(r'x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', str(failed(numbers)))
    assert len(drawn) == sum(map(bool, numbers))
    for x, y, width, height in (map(float, one) for one in drawn):
        assert x + width <= BARS_WIDTH + 0.1
        assert abs(y + height - BARS_HEIGHT) <= 0.1


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ([0] * 60, "no try has failed in the last 60 minutes"),
        ([0] * 59 + [1], "1 try has failed in 1 of the last 60 minutes, the first 1 min ago"),
        (
            [0] * 12 + [19, 0, 1200] + [0] * 45,
            "1,219 tries have failed in 2 of the last 60 minutes, the first 48 min ago; most, 1,200, 46 min ago",
        ),
    ],
)
def test_failures_are_told_since_when_how_often_and_when_most(numbers: list[int], told: str) -> None:
    assert failures(numbers) == told
    assert f'aria-label="{told}"' in str(failed(numbers))


def test_how_fast_a_build_has_gone_is_a_line_from_the_second_figure_on() -> None:
    assert str(pace([])) == str(pace([7.0])) == ""
    drawn = str(pace([0.0, 1500.4, 999.6]))
    assert 'aria-label="a second, from 0 to 1,500, at last 1,000"' in drawn
