"""Each promise names tests, and each test it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
TESTS = {
    name
    for file in (ROOT / "tests").rglob("*.py")
    for name in re.findall(r"^\s*(?:async )?def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)
}


def test_every_invariant_has_one_row() -> None:
    rows = re.findall(r"^\| (I\d+) ", PAGE, re.MULTILINE)
    assert rows == [f"I{number}" for number in range(1, 25)]


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named - TESTS == set()
