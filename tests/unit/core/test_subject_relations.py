"""How subjects with wildcards relate."""

from __future__ import annotations

import pytest

from projectionist.core.nats.subject_relations import covers, mapped, overlap


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
    ("subject", "src", "dest", "expected"),
    [
        ("a.b", "a.b", "c.d", "c.d"),
        ("in.order.7", "in.>", "out.>", "out.order.7"),
        ("in.order.*", "in.>", "out.>", "out.order.*"),
        ("in.>", "in.>", "out.>", "out.>"),
        ("order.7", ">", "shop.>", "shop.order.7"),
        ("in.order.7", "in.*.*", "out.{{wildcard(2)}}.$1", "out.7.order"),
        ("in.order.*", "in.*.*", "out.{{ Wildcard( 1 ) }}.{{wildcard(2)}}", "out.order.*"),
        ("in.7", "in.*", "out.$2", "out.*"),
        ("in.7", "in.*", "out.{{partition(3,1)}}.{{wildcard(1)}}", "out.*.7"),
        ("in.7", "in.*", "out.{{left(1,2)}}", "out.*"),
        ("in.7-8", "in.*", "out.{{split(1,-)}}.end", "out.>"),
    ],
)
def test_a_transform_is_followed_as_far_as_it_can_be_told(
    subject: str, src: str, dest: str, expected: str
) -> None:
    assert mapped(subject, src, dest) == expected
