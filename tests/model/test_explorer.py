"""The explorer finds what is known to be there: all states, the shortest way, circles and livelocks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.model.explorer import LIVE, Model, TooMany, explore

Forks = tuple[tuple[int, ...], tuple[int, ...]]
"""How many forks each philosopher holds, and who has each fork (-1: nobody)."""


def dinner(people: int, *, left_handed: bool) -> Model[Forks]:
    """Philosophers who take one fork after the other; with a left-handed one among them nobody starves."""

    def first(one: int) -> int:
        return (one + 1) % people if left_handed and one == 0 else one

    def steps(state: Forks) -> Iterator[tuple[str, Forks]]:
        held, forks = state
        for one in range(people):
            wanted = first(one) if held[one] == 0 else sum((one, (one + 1) % people)) - first(one)
            if held[one] == 2:
                yield f"eats {one}", (put(held, one, 0), tuple(-1 if f == one else f for f in forks))
            elif forks[wanted] == -1:
                yield f"takes {one}", (put(held, one, held[one] + 1), put(forks, wanted, one))

    def put(row: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
        return (*row[:at], value, *row[at + 1 :])

    start = ((0,) * people, (-1,) * people)
    return Model(start, steps, {}, lambda state: state == start)


def test_a_circle_of_waits_is_found_by_the_shortest_way() -> None:
    found = explore(dinner(4, left_handed=False))

    assert list(found.broken) == [LIVE]
    assert sorted(found.broken[LIVE].labels) == [f"takes {one}" for one in range(4)]


def test_without_a_circle_nothing_is_found() -> None:
    assert explore(dinner(4, left_handed=True)).broken == {}


def test_every_state_is_visited_once() -> None:
    found = explore(Model(0, lambda n: [("up", n + 1), ("down", n - 1)] if abs(n) < 50 else [], {}, bool))

    assert (found.states, found.depth) == (101, 50)
    assert found.met == {"up": 99, "down": 99}


def test_the_way_to_a_broken_invariant_is_the_shortest() -> None:
    leaps = Model(
        0,
        lambda n: [("one", n + 1), ("three", n + 3)] if n < 20 else [],
        {"I0 below seven": lambda n: n < 7},
        lambda _: True,
    )

    assert explore(leaps).broken["I0 below seven"].labels == ["one", "three", "three"]


def test_nothing_is_explored_past_what_is_broken() -> None:
    invariants = {"I0 below three": lambda n: n < 3, "I0 below five": lambda n: n < 5}
    model = Model(0, lambda n: [("up", n + 1)] if n < 9 else [], invariants, lambda _: True)

    assert list(explore(model).broken) == ["I0 below three"]


def test_who_goes_round_for_ever_does_not_come_to_rest() -> None:
    steps = {0: [("work", 1), ("spin", 2)], 1: [], 2: [("spin", 3)], 3: [("spin", 2)]}

    assert explore(Model(0, steps.__getitem__, {}, lambda n: n == 1)).broken[LIVE].labels == ["spin"]


def test_a_model_that_outgrows_its_bound_says_so() -> None:
    with pytest.raises(TooMany, match="more than 1,000 states"):
        explore(Model(0, lambda n: [("up", n + 1)], {}, lambda _: True), most=1_000)
