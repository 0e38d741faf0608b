"""Sets of versions: as a set of numbers would answer, in constant time however wide a range is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projectionist.runner.batch.version_ranges import VersionRanges

NUMBERS = st.integers(-2, 30)
RANGES = st.lists(st.tuples(st.integers(0, 25), st.integers(-1, 6)).map(lambda r: (r[0], r[0] + r[1])))


@given(RANGES, NUMBERS, NUMBERS)
def test_it_answers_as_a_set_of_numbers_would(ranges: list[tuple[int, int]], version: int, upto: int) -> None:
    versions, plain = VersionRanges(), set[int]()
    for first, last in ranges:
        versions.add(first, last)
        plain |= set(range(first, last + 1))

    behind = version
    while behind + 1 in plain:
        behind += 1
    assert (version in versions) == (version in plain)
    assert versions.after(version) == behind
    assert versions.count(version, upto) == len([v for v in plain if version < v <= upto])


def test_a_gap_of_all_versions_there_are_is_counted_at_once() -> None:
    versions = VersionRanges()
    versions.add(6, 2**62 - 1)

    assert versions.count(5, 2**62 - 1) == 2**62 - 6
    assert versions.count(0, 10) == 5
    assert versions.after(5) == 2**62 - 1
    assert 2**61 in versions


def test_a_hundred_thousand_single_steps_are_one_range() -> None:
    versions = VersionRanges()
    for version in range(100_000, 0, -1):
        versions.add(version, version)

    assert versions.after(0) == 100_000
    assert versions.count(0, 50_000) == 50_000
