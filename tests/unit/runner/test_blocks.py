"""Pairs that are asked for as two arrays: never far more than they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projectionist.runner.store import MOST_EXCESS, blocks

PAIRS = st.sets(st.tuples(st.text("abcdefgh", max_size=3), st.integers(1, 300)), min_size=1, max_size=300)


@given(PAIRS)
def test_every_pair_is_asked_for_and_not_many_others(pairs: set[tuple[str, int]]) -> None:
    asked = [{(a, b) for a in firsts for b in seconds} for firsts, seconds in blocks(sorted(pairs))]

    assert pairs <= set().union(*asked)
    assert sum(map(len, asked)) <= MOST_EXCESS * len(pairs)


def test_the_ids_of_one_source_are_asked_for_at_once() -> None:
    assert list(blocks([("shop", f"{n:04}") for n in range(1000)])) == [
        (["shop"], [f"{n:04}" for n in range(1000)])
    ]
