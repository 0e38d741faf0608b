"""Explores every state that a model can be in, breadth first, and shows what breaks by the shortest way to it.

A model is a start, the steps from a state, and what must hold. Nothing is drawn by chance and nothing left out: within
its bounds the answer is a proof. Where every step may be taken again and again until it is taken (strong fairness), a
model comes to rest if, and only if, rest can be reached from every state; so that is what is asked of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

S = TypeVar("S", bound=Hashable)
V = TypeVar("V")
LIVE = "I13 everything comes to rest"
"""The one demand on every model that no single state can break."""


class Model(msgspec.Struct, Generic[S], frozen=True):
    """What is explored."""

    start: S
    steps: Callable[[S], Iterable[tuple[str, S]]]
    """All that may happen next: what it is called, and where it leads."""
    invariants: Mapping[str, Callable[[S], bool]]
    """What holds in every state, by a name that begins with its number in docs/guarantees.md."""
    rests: Callable[[S], bool]
    """Whether nothing is owed any more."""


class Counterexample(msgspec.Struct, Generic[S], frozen=True):
    """The shortest way to a state that breaks something."""

    way: list[tuple[str, S]]
    """Each step with the state it led to."""

    @property
    def labels(self) -> list[str]:
        """Return what happened, in its order."""
        return [label for label, _ in self.way]


class Explored(msgspec.Struct, Generic[S], frozen=True):
    """What was found."""

    states: int
    depth: int
    met: Counter[str]
    """How often each step was taken, by the first word of its label."""
    broken: dict[str, Counterexample[S]]
    """By invariant. Nothing is explored past a state that breaks one, so that none is broken in consequence."""


class TooMany(Exception):
    """Raised where a model has more states than it is bounded to."""


def explore(model: Model[S], most: int = 500_000) -> Explored[S]:
    """Visit every state that can be reached."""
    came: dict[S, tuple[str, S] | None] = {model.start: None}
    depths = {model.start: 0}
    before: defaultdict[S, list[S]] = defaultdict(list)
    met: Counter[str] = Counter()
    broken: dict[str, Counterexample[S]] = {}
    resting, queue = [], deque([model.start])
    while queue:
        state = queue.popleft()
        if wrong := [name for name, holds in model.invariants.items() if not holds(state)]:
            for name in wrong:
                broken.setdefault(name, _way(came, state))
            continue
        if model.rests(state):
            resting.append(state)
        for label, after in model.steps(state):
            met[label.partition(" ")[0]] += 1
            before[after].append(state)
            if after not in came:
                if len(came) >= most:
                    raise TooMany(f"more than {most:,} states")
                came[after] = (label, state)
                depths[after] = depths[state] + 1
                queue.append(after)
    if not broken and (stuck := _first_stuck(came, resting, before)) is not None:
        broken[LIVE] = _way(came, stuck)
    return Explored(len(came), max(depths.values()), met, broken)


def explore_all(models: Mapping[str, Model[S]]) -> Explored[S]:
    """Explore each of these; return what was found in all of them, what is broken with the scenario before it."""
    states = depth = 0
    met: Counter[str] = Counter()
    broken: dict[str, Counterexample[S]] = {}
    for scenario, model in models.items():
        found = explore(model)
        states, depth = states + found.states, max(depth, found.depth)
        met += found.met
        broken |= {f"{scenario}: {name}": way for name, way in found.broken.items()}
    return Explored(states, depth, met, broken)


def _first_stuck(came: Iterable[S], resting: list[S], before: Mapping[S, list[S]]) -> S | None:
    """Return the first state found from which no rest can be reached; a circle of waits is one without any step."""
    alive, queue = set(resting), deque(resting)
    while queue:
        for state in before.get(queue.popleft(), ()):
            if state not in alive:
                alive.add(state)
                queue.append(state)
    return next((state for state in came if state not in alive), None)


def _way(came: Mapping[S, tuple[str, S] | None], state: S) -> Counterexample[S]:
    way = []
    while (step := came[state]) is not None:
        way.append((step[0], state))
        state = step[1]
    return Counterexample(way[::-1])


def put(row: tuple[V, ...], at: int, value: V) -> tuple[V, ...]:
    """Return the row with another value in one place."""
    return (*row[:at], value, *row[at + 1 :])
