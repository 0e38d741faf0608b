"""One predicate for every text that enters a statement, a header or a subject."""

from __future__ import annotations

import sys
from unicodedata import category

import pytest

from projectionist.core.printable_text import flaw, is_printable, is_text, storable


def test_control_format_surrogate_private_unassigned_and_breaks_are_unprintable() -> None:
    kinds = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
    for letter in map(chr, range(sys.maxunicode + 1)):
        assert is_printable(letter, 4) == (letter == " " or category(letter) not in kinds), ascii(letter)


@pytest.mark.parametrize("text", ["", "a b", "é" * 5, "😀", "x" * 10])
def test_a_printable_line_within_its_bytes_fits(text: str) -> None:
    assert is_printable(text, 10)
    assert flaw(text, 10) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x" * 11, "has 11 bytes, more than 10: 'xxxxxxxxxxx'"),
        ("é" * 6, "has 12 bytes, more than 10: '\\xe9\\xe9\\xe9\\xe9\\xe9\\xe9'"),
        ("a\nb", "holds a character that cannot be printed: 'a\\nb'"),
        ("a\udcff", "is not UTF-8: 'a\\udcff'"),
    ],
)
def test_a_flaw_says_what_and_shows_it_in_ascii(text: str, says: str) -> None:
    assert not is_printable(text, 10)
    assert flaw(text, 10) == says


def test_anything_becomes_storable() -> None:
    assert storable("a\0b\ud800é") == "a\\0b\\ud800é"


@pytest.mark.parametrize(("text", "is_one"), [("é\n", True), ("a\0b", False), ("\udcff", False)])
def test_a_text_is_what_postgresql_takes(text: str, is_one: bool) -> None:
    assert is_text(text) == is_one
