"""Tells which builds are open and how far each has come, whoever builds: a command, a console, or nobody any more."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from projectionist.runner.database.queries import Queries


class BuildReport(msgspec.Struct, frozen=True, kw_only=True):
    """A build that has neither been swapped in nor given up."""

    consumer: str
    view: str
    kind: str
    """`rebuild`, or `rollback` to a kept generation."""
    generation: int
    revision: int
    phase: str
    owner: str
    started: datetime
    partial: bool
    is_marked: bool
    """Whether it can go on; otherwise it can only be given up."""
    finished: int
    buckets: int
    is_built: bool
    """Whether its owner is at work; otherwise the next rebuild goes on with it."""
    doing: str | None = None
    """What its owner did when that was last written down, `told`: this and how far it was."""
    done: int | None = None
    expected: int | None = None
    per_s: float | None = None
    told: datetime | None = None
    rates: list[float] = []
    """How many were done a second, one for each stretch of some seconds, the newest last: at most an hour."""

    @property
    def share(self) -> float | None:
        """Return how much of what it does is done; None where that cannot be told."""
        return min(1.0, (self.done or 0) / self.expected) if self.expected else None

    @property
    def left_s(self) -> float | None:
        """Return how long the rest of what it does takes at this pace; None where that cannot be told."""
        return max(0, self.expected - (self.done or 0)) / self.per_s if self.expected and self.per_s else None


async def open_builds(queries: Queries, consumer: str | None = None) -> list[BuildReport]:
    """Return those of a consumer, or of all."""
    return [BuildReport(**dict(row)) for row in await queries.rows("select_open_builds", consumer)]
