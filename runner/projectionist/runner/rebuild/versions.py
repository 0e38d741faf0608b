"""A set of versions, kept as ranges: what is asked of it takes as long for a gap of 2^62 versions as for one. Pure."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate


class Versions:
    """Filled range by range, then asked."""

    def __init__(self) -> None:
        self._given: list[tuple[int, int]] = []
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._before: list[int] = [0]
        """How many versions stand in the ranges before each."""

    def add(self, first: int, last: int) -> None:
        """Let the versions from `first` to `last` be in it."""
        self._given.append((first, last))

    def __contains__(self, version: int) -> bool:
        return version <= self._last_at(version)

    def after(self, version: int) -> int:
        """The end of the range that begins right behind this version or holds it; the version itself without one."""
        return max(version, self._last_at(version + 1))

    def count(self, above: int, upto: int) -> int:
        """How many versions in (above, upto] are in it."""
        return max(0, self._upto(upto) - self._upto(above))

    def _last_at(self, version: int) -> int:
        """The end of the last range that begins at or before this version; below it if that is not reached."""
        self._merge()
        at = bisect_right(self._firsts, version)
        return self._lasts[at - 1] if at else version - 1

    def _upto(self, version: int) -> int:
        self._merge()
        at = bisect_right(self._firsts, version)
        if not at:
            return 0
        return self._before[at - 1] + min(self._lasts[at - 1], version) - self._firsts[at - 1] + 1

    def _merge(self) -> None:
        """Bring what was given into ranges that neither meet nor touch, in order."""
        if not self._given:
            return
        ranges = sorted([*zip(self._firsts, self._lasts, strict=True), *self._given])
        self._given, self._firsts, self._lasts = [], [], []
        for first, last in ranges:
            if self._lasts and first <= self._lasts[-1] + 1:
                self._lasts[-1] = max(self._lasts[-1], last)
            elif first <= last:
                self._firsts.append(first)
                self._lasts.append(last)
        sizes = (last - first + 1 for first, last in zip(self._firsts, self._lasts, strict=True))
        self._before = list(accumulate(sizes, initial=0))
