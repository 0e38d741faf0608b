"""A set of versions, kept as ranges: what is asked of it takes as long for a gap of 2^62 versions as for one. Pure."""

from __future__ import annotations

from bisect import bisect_right
from math import inf


class VersionRanges:
    """Filled range by range, then asked. There may be one for each aggregate, nearly all of one range."""

    __slots__ = ("_merged", "_ranges")

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, int]] = []
        """First, last, and how many versions stand in the ranges before; merged, they neither meet nor touch."""
        self._merged = True

    def add(self, first: int, last: int) -> None:
        """Let the versions from `first` to `last` be in it."""
        if first <= last:
            self._merged = not self._ranges
            self._ranges.append((first, last, 0))

    def __contains__(self, version: int) -> bool:
        found = self._from(version)
        return found is not None and version <= found[1]

    def after(self, version: int) -> int:
        """Return the end of the range that begins right behind this version or holds it; the version itself without
        one."""
        found = self._from(version + 1)
        return version if found is None else max(version, found[1])

    def count(self, above: int, upto: int) -> int:
        """Return how many versions in (above, upto] are in it."""
        return max(0, self._upto(upto) - self._upto(above))

    def _upto(self, version: int) -> int:
        found = self._from(version)
        return 0 if found is None else found[2] + min(found[1], version) - found[0] + 1

    def _from(self, version: int) -> tuple[int, int, int] | None:
        """Return the last range that begins at or before this version."""
        if not self._merged:
            self._merge()
        at = bisect_right(self._ranges, (version, inf, 0))
        return self._ranges[at - 1] if at else None

    def _merge(self) -> None:
        merged: list[tuple[int, int, int]] = []
        for first, last, _ in sorted(self._ranges):
            if merged and first <= merged[-1][1] + 1:
                begins, ends, before = merged[-1]
                merged[-1] = begins, max(ends, last), before
            else:
                before = merged[-1][2] + merged[-1][1] - merged[-1][0] + 1 if merged else 0
                merged.append((first, last, before))
        self._ranges, self._merged = merged, True
