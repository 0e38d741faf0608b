"""Subjects: reading the aggregate out of one, building one, and one filter for many patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projectionist.core.errors import DefinitionError
from projectionist.projections.compiled.subject_pattern import SubjectPattern, Subjects

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("pattern", "filter_", "subject", "found"),
    [
        ("shop.order.{aggregate}", "shop.order.*", "shop.order.7", (None, "7")),
        ("shop.order.{aggregate}", "shop.order.*", "shop.order", None),
        ("shop.order.{aggregate}", "shop.order.*", "shop.order.7.paid", None),
        ("shop.order.{aggregate}", "shop.order.*", "shop.invoice.7", None),
        ("shop.{type}.{aggregate}", "shop.*.*", "shop.order.7", ("order", "7")),
        ("shop.{type}.{aggregate}.*", "shop.*.*.*", "shop.order.7.paid", ("order", "7")),
        ("shop.{aggregate}.>", "shop.*.>", "shop.7.a.b", (None, "7")),
        ("shop.{aggregate}.>", "shop.*.>", "shop.7", None),
        ("shop.>", "shop.>", "shop.order.7", (None, None)),
        ("shop.order.{aggregate}", "shop.order.*", "shop.order.a%2Eb%25", (None, "a.b%")),
        ("shop.order.{aggregate}", "shop.order.*", "shop.order.Ünal", (None, "Ünal")),
    ],
)
def test_a_subject_tells_the_aggregate(
    pattern: str, filter_: str, subject: str, found: tuple[str | None, str | None] | None
) -> None:
    made = SubjectPattern(pattern)
    assert made.filter == filter_
    assert made.match(subject) == found


def test_a_subject_that_is_no_utf_8_once_decoded_is_told_by_an_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        SubjectPattern("shop.order.{aggregate}").match("shop.order.%FF")


@given(ids, ids)
def test_what_is_built_is_read_back(aggregate_type: str, aggregate_id: str) -> None:
    pattern = SubjectPattern("shop.{type}.{aggregate}.*")
    subject = pattern.subject_for(aggregate_type, aggregate_id)
    assert subject is not None
    assert subject.isprintable() or any(not c.isprintable() and ord(c) > 127 for c in subject)
    assert pattern.match(subject) == (aggregate_type, aggregate_id)


@pytest.mark.parametrize(
    ("pattern", "aggregate"),
    [("shop.>", ("order", "7")), ("shop.{type}.{aggregate}", ("", "7")), ("shop.{aggregate}", ("order", ""))],
)
def test_a_subject_that_cannot_be_told_is_none(pattern: str, aggregate: tuple[str, str]) -> None:
    assert SubjectPattern(pattern).subject_for(*aggregate) is None


@pytest.mark.parametrize(
    ("patterns", "filter_"),
    [
        (["a.{aggregate}"], "a.*"),
        (["a.order.{aggregate}", "a.invoice.{aggregate}"], "a.*.*"),
        (["a.order.{aggregate}", "a.order.{aggregate}.paid"], "a.order.>"),
        (["a.order.>", "a.order.{aggregate}.paid"], "a.order.>"),
        (["a", "a.b"], ">"),
    ],
)
def test_several_patterns_become_the_narrowest_filter_that_covers_them(
    patterns: list[str], filter_: str
) -> None:
    assert Subjects(patterns).filter == filter_


def test_the_first_pattern_that_matches_tells() -> None:
    subjects = Subjects(["a.order.{aggregate}", "a.{type}.{aggregate}"])
    assert subjects.match("a.order.7") == (None, "7")
    assert subjects.match("a.invoice.7") == ("invoice", "7")
    assert subjects.match("b.order.7") is None


def test_a_subject_of_several_patterns_covers_them_all() -> None:
    assert Subjects(["a.order.{aggregate}", "a.paid.{aggregate}"]).subject_for("", "7") == "a.*.7"
    assert Subjects(["a.order.{aggregate}", "b.>"]).subject_for("", "7") is None
    assert Subjects(["a.order.{aggregate}", "b.>"]).names_aggregate is False


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a..b",
        "order-{aggregate}",
        "{order}",
        "{aggregate",
        "a b",
        "a.>.b",
        "a*",
        "{aggregate}.{aggregate}",
    ],
)
def test_a_pattern_that_means_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(DefinitionError, match="subjects="):
        SubjectPattern(pattern)


def test_no_pattern_at_all_is_refused() -> None:
    with pytest.raises(DefinitionError, match="empty"):
        Subjects([])
