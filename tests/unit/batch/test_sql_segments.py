"""Which events of own SQL are tried together after some of them have failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from projectionist.runner.batch.sql_segments import MOST_FAILURES, Segments, SqlEvent, parts


def events(text: str) -> Any:
    """An event a letter: its course and the name of its handler."""
    return [SqlEvent(ord(one), one, SimpleNamespace(handler=SimpleNamespace(name=one))) for one in text]  # type: ignore[arg-type] # no more is read


def read(segment: list[SqlEvent]) -> str:
    return "".join(str(one.delivery) for one in segment)


@pytest.mark.parametrize(
    ("blamed", "expected"),
    [
        (range(3, 4), ["abc", "d", "efgh"]),
        (range(1), ["a", "bcdefgh"]),
        (range(7, 8), ["abcdefg", "h"]),
        (range(2, 6), ["ab", "cdef", "gh"]),
        (range(8), ["abcd", "efgh"]),
    ],
)
def test_what_is_to_blame_is_tried_apart_from_the_rest_or_halved(blamed: range, expected: list[str]) -> None:
    assert [read(part) for part in parts(events("abcdefgh"), blamed)] == expected


def test_parts_are_tried_in_the_order_of_their_events() -> None:
    segments = Segments(events("abcdefgh"))
    segments.split(segments.following(), range(8))
    segments.split(segments.following(), range(1, 2))
    assert [read(segments.following()) for _ in range(5)] == ["a", "b", "cd", "efgh", ""]


def test_a_course_that_has_stopped_is_left_out_of_what_follows() -> None:
    segments = Segments(events("abab"))
    segments.split(segments.following(), range(1))
    assert read(segments.following()) == "a"
    segments.stop(ord("a"))
    assert [read(segments.following()) for _ in range(2)] == ["bb", ""]


def test_events_of_a_handler_that_wants_a_savepoint_of_its_own_are_alone() -> None:
    segments = Segments(events("abxcxxd"), apart={"x"})
    assert [read(segments.following()) for _ in range(7)] == ["ab", "x", "c", "x", "x", "d", ""]


def test_after_many_failures_each_event_is_tried_alone() -> None:
    segments, together, alone = Segments(events("a" * 1024)), 0, 0
    while segment := segments.following():
        together += len(segment) > 1
        alone += len(segment) == 1
        segments.split(segment, range(len(segment))) if len(segment) > 1 else None
    assert alone == 1024
    assert together <= MOST_FAILURES + 10, "halves of halves would be 1,023"
