"""Event types as they are counted: by name while there are few. Whoever writes to a stream may think of any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

OTHER = "other"
"""What types are counted as beyond the few."""
MOST = 200
"""How many types without a handler one process counts by name for one consumer."""


class CountedTypes:
    """The types that are counted by name: those that are handled, and the first others that come."""

    def __init__(self, handled: Iterable[str]) -> None:
        self._named = {"", OTHER, *handled}
        self._most = len(self._named) + MOST

    def name(self, kind: str) -> str:
        """Return the type itself, or `other`."""
        if kind in self._named:
            return kind
        if len(self._named) == self._most:
            return OTHER
        self._named.add(kind)
        return kind

    def bounded(self, counts: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
        """Return counts by type and outcome, their sum unchanged."""
        found: Counter[tuple[str, str]] = Counter()
        for (kind, outcome), n in counts.items():
            found[self.name(kind), outcome] += n
        return found
