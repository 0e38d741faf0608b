"""Holes and reuse, from versions in any order."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from projectionist.ops.inspect.stream_audit import (
    AggregateVersions,
    MissingRange,
    Reuse,
    VersionClaim,
    reused,
)

VERSIONS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 12)), max_size=40)


def event(seq: int, name: str, content: bytes = b"x") -> VersionClaim:
    return VersionClaim(seq, "shop", name, content)


@given(VERSIONS, st.randoms())
def test_holes_and_repeats_are_those_of_the_set_of_versions_whatever_their_order(
    places: list[tuple[str, int]], chance: random.Random
) -> None:
    chance.shuffle(places)
    versions = AggregateVersions()
    for place in places:
        versions.take(*place)
    missing = {(h.aggregate, v) for h in versions.holes() for v in range(h.first, h.last + 1)}
    expected = {
        (aggregate, version)
        for aggregate in {a for a, _ in places}
        for version in range(1, max(v for a, v in places if a == aggregate))
    } - set(places)
    assert missing == expected
    assert versions.again == {place for place in places if places.count(place) > 1}
    assert len(versions) == len({a for a, _ in places})


def test_an_aggregate_that_begins_late_has_a_hole_before_it() -> None:
    versions = AggregateVersions()
    for version in (4, 5, 7):
        versions.take("order/1", version)
    versions.take("order/2", 1)
    assert list(versions.holes()) == [MissingRange("order/1", 1, 3), MissingRange("order/1", 6, 6)]
    assert versions.late() == 1


def test_a_version_of_two_events_is_told_apart_from_one_that_came_twice() -> None:
    place, other = ("order/1", 2), ("order/1", 3)
    claims = [(place, event(2, "a")), (place, event(5, "b")), (other, event(3, "c")), (other, event(6, "c"))]
    assert reused(claims) == ([Reuse("order/1", 2, [event(2, "a"), event(5, "b")])], 1)


def test_one_identity_with_other_content_is_two_events() -> None:
    place = ("order/1", 2)
    found, repeats = reused([(place, event(2, "a")), (place, event(5, "a", b"y"))])
    assert len(found[0].events) == 2
    assert repeats == 0
