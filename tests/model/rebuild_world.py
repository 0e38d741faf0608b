"""What the model of a rebuild is made of: events, what live has applied, what the build has made, and its bounds."""

from __future__ import annotations

from typing import NamedTuple

RULES = {
    "marks": "live marks each aggregate that it moves while a build is open",
    "flip alone": "the slot of marks is flipped beside no open batch",
    "marks last": "a mark goes after what it stands for is folded",
    "positions with rows": "the shadow's rows and where it stands are of one commit",
    "only what live applied": "the shadow folds what live has applied, and nothing else",
    "decisions": "what a person has stepped over is stepped over again",
    "epoch held": "who has lost a build writes nothing more for it",
    "resumed": "a build that was left is gone on with",
    "swap alone": "views are exchanged beside no open batch",
    "tail at hand": "what the swap folds is at hand before the barrier is taken",
}


class Event(NamedTuple):
    """One event of the stream; its place in the scenario is its sequence."""

    aggregate: int
    version: int = 1


class Batch(NamedTuple):
    """An open batch of live, with the control row as it has read it."""

    event: int
    slot: int = -1
    """Where it marks what it moves; -1: no build is open."""
    generation: int = 0


class Builder(NamedTuple):
    """A process that builds."""

    at: str = "idle"
    """idle, bulk, catching, flipped, planned, stands, folded, ready, waiting (for the broker, with the barrier), done
    or gone."""
    epoch: int = 0
    slot: int = 0
    """The slot whose marks it sees to."""
    plan: tuple[int, ...] = ()
    seen: frozenset[int] = frozenset()
    """The aggregates whose marks the plan answers."""


class World(NamedTuple):
    """Stream, live generation, build."""

    states: tuple[str, ...]
    """By event: nothing, applied or skipped."""
    positions: tuple[int, ...]
    rows: tuple[tuple[tuple[int, ...], ...], ...]
    """By generation and aggregate: the versions folded into its row, in the order in which they were."""
    batches: tuple[Batch, ...] = ()
    builders: tuple[Builder, ...] = ()
    shadow: tuple[int, ...] = ()
    """Where the shadow stands, by aggregate."""
    building: bool = False
    epoch: int = 0
    slot: int = 0
    marks: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    generation: int = 0
    """The one that readers see."""
    late: bool = False
    """Something was written for the build by a process that had lost it."""
    hung: bool = False
    """A batch waits for somebody who waits for the broker."""
    deaths: int = 0
