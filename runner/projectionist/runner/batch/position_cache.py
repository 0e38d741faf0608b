"""A bounded memory of aggregates: what a process has found out once and need not find out again."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

REMEMBERED = 100_000
"""How many aggregates are remembered; the oldest are forgotten first."""


class PositionCache:
    """Aggregates that something is known about, which need not be asked again."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._seen: dict[str, None] = {}
        self._most = most

    def unknown(self, aggregates: Iterable[str]) -> list[str]:
        """Return those of the sorted aggregates that may have no position yet."""
        return [aggregate for aggregate in aggregates if aggregate not in self._seen]

    def add(self, aggregates: Iterable[str]) -> None:
        """Remember positions whose existence has been committed."""
        self._seen.update(dict.fromkeys(aggregates))
        if len(self._seen) > self._most:
            for aggregate in list(islice(self._seen, len(self._seen) - self._most)):
                del self._seen[aggregate]

    def clear(self) -> None:
        """Forget all: the rows may have gone with an epoch, a restore or a reset."""
        self._seen.clear()
