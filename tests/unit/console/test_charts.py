"""Charts are geometry that fits into its picture, and a sentence for whoever does not see it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from projectionist.console.charts import HEIGHT, WIDTH, applied


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
