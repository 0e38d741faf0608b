"""Each fault of docs/faults.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.docs.test_guarantees import TESTS

PAGE = (Path(__file__).parents[3] / "docs" / "faults.md").read_text("utf-8")
ROWS = re.findall(r"^\| (F\d+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)


def test_every_fault_has_one_row() -> None:
    assert [number for number, _, _ in ROWS] == [f"F{number}" for number in range(1, 33)]


def test_every_fault_names_tests_and_each_of_them_exists() -> None:
    named = {number: set(re.findall(r"`(test_\w+)`", tests)) for number, _, tests in ROWS}
    assert [number for number, tests in named.items() if not tests] == []
    assert set(re.findall(r"`(test_\w+)`", PAGE)) - TESTS == set()
