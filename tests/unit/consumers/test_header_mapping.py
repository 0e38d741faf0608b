"""What processes of a consumer read from different headers, in words."""

from __future__ import annotations

from projectionist.core.settings.settings import Headers
from projectionist.runner.consumers.header_mapping import disagreement, mapping, unified

USUAL, OTHER = mapping(Headers()), mapping(Headers(version="X-Version", id="X-Id"))


def test_processes_that_agree_but_for_case_are_not_told_of() -> None:
    assert disagreement([]) == disagreement([("a:1", USUAL)]) == ""
    assert disagreement([("a:1", USUAL), ("b:2", mapping(Headers(version="CE-AggregateVersion")))]) == ""


def test_each_part_that_is_read_from_two_headers_is_told_with_who_reads_which() -> None:
    assert disagreement([("a:1", USUAL), ("b:2", OTHER)]) == (
        "its processes read different headers: id from ce-id (a:1) and x-id (b:2); "
        "version from ce-aggregateversion (a:1) and x-version (b:2)"
    )


def test_of_many_processes_a_few_are_named() -> None:
    crowd = [(f"a:{n}", USUAL) for n in range(9)]
    assert "ce-id (a:0, a:1, a:2 and 6 more) and x-id (b:2)" in disagreement([*crowd, ("b:2", OTHER)])


def test_a_process_of_a_release_that_says_nothing_of_a_part_is_not_compared_by_it() -> None:
    known = {word: header for word, header in OTHER.items() if word != "version"}
    assert "version" not in disagreement([("a:1", USUAL), ("b:2", known)])
    assert "[consumers.Orders]" in unified("Orders")
