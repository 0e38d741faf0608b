"""The rows that a batch asks for, by key and below prefixes: known from its events before anything is locked. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from projectionist.projections.folding.step import Step
from projectionist.projections.tables.table_key import MOST_AT_ONCE, MOST_ROWS, Keys, Prefix

Values = tuple[Any, ...]


class TooManyRows(Exception):
    """The events of this batch have more rows than are folded at once: try fewer of them."""

    def __init__(self) -> None:
        super().__init__(f"its events have more than {MOST_AT_ONCE:,} rows together")


class WantedRows(msgspec.Struct):
    """Keys and prefixes, of which none is below another."""

    keys: set[Any]
    prefixes: set[Values]
    several: bool
    """Whether an event has several rows, so that they are counted."""
    asked: int
    """How many rows the events name by their keys, each as often as it is named."""
    asked_below: Counter[Values]
    """How often each prefix is named."""

    def check(self, loaded: Collection[Any], events: int) -> None:
        """Raise TooManyRows where these events, of more than one, have too many rows, or one prefix more than were
        read: what another event of the batch does with them must not decide how many are found."""
        if not self.several or events < 2:
            return
        below = Counter[Values]()
        lengths = sorted({len(prefix) for prefix in self.asked_below})
        for key in loaded if lengths else ():
            below.update(key[:many] for many in lengths if key[:many] in self.asked_below)
        found = sum(below[prefix] * times for prefix, times in self.asked_below.items())
        if self.asked + found > MOST_AT_ONCE or any(many > MOST_ROWS for many in below.values()):
            raise TooManyRows


def bounded(steps: Iterable[Step]) -> list[Step]:
    """Return these steps; raise TooManyRows at the first with whose keys there are too many, before more are made."""
    found, asked = list[Step](), 0
    for step in steps:
        found.append(step)
        if step.key.__class__ is Keys:
            asked += len(step.key.listed)
            if asked > MOST_AT_ONCE and len(found) > 1:
                raise TooManyRows
    return found


def wanted_rows(steps: Iterable[Step]) -> WantedRows:
    """Return what these steps ask for; what is below a prefix that is asked for is not asked for by itself."""
    keys, prefixes, asked, several = set[Any](), Counter[Values](), 0, False
    for step in steps:
        key = step.key
        if key.__class__ is Keys:
            keys.update(key.listed)
            asked += len(key.listed)
            several = True
        elif key.__class__ is Prefix:
            prefixes[key.values] += 1
            several = True
        elif not isinstance(key, Exception):
            keys.add(key)
            asked += 1
    tops = {one for one in prefixes if not _is_below(one, prefixes)}
    if tops:
        keys = {key for key in keys if not _is_below(key, tops)}
    return WantedRows(keys, tops, several, asked, prefixes)


def named_keys(key: Any) -> Sequence[Any]:
    """Return the keys that an event names; none where it has no row, or those below a prefix."""
    if isinstance(key, Keys):
        return key.listed
    return () if isinstance(key, Prefix | Exception) else (key,)


def _is_below(values: Values, prefixes: Collection[Values]) -> bool:
    return any(begin in prefixes for begin in _beginnings(values))


def _beginnings(values: Values) -> Sequence[Values]:
    """Return the shorter tuples that it begins with."""
    return list(accumulate((one,) for one in values[:-1]))
