"""How subjects with wildcards relate, and which filter that leaves."""

from __future__ import annotations

import pytest

from projectionist.runner.subjects import covers, only, overlap


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("a.>", "a.b", True),
        ("a.>", "a.b.>", True),
        ("a.>", "a", False),
        ("a.*", "a.b", True),
        ("a.*", "a.>", False),
        ("a.*", "a.b.c", False),
        ("*.*", "a.*", True),
        ("a.b", "a.*", False),
        (">", ">", True),
    ],
)
def test_one_covers_the_other(wide: str, narrow: str, expected: bool) -> None:
    assert covers(wide, narrow) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a.*", "*.b", True),
        ("a.>", "a", False),
        ("a.b", "a.c", False),
        (">", "a.b", True),
        ("a.*.c", "a.b", False),
    ],
)
def test_two_overlap(one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected


@pytest.mark.parametrize(
    ("ours", "stream", "expected"),
    [
        ("shop.order.*", ["shop.>"], "shop.order.*"),
        ("shop.order.*", ["shop.order.*"], None),
        ("shop.>", ["shop.order.*", "shop.payment.*"], None),
        ("shop.>", ["shop.>", "audit.>"], "shop.>"),
        (">", ["shop.>"], None),
        ("shop.order.*", [], "shop.order.*"),
    ],
)
def test_a_filter_that_lets_the_whole_stream_through_is_none(
    ours: str, stream: list[str], expected: str | None
) -> None:
    assert only(ours, stream) == expected
