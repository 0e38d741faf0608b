"""Behind which event a live row ceased to be what its events make, told while they are folded."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from projectionist.projections import Event, Projection, definition, on
from projectionist.projections.tables.table import Table
from projectionist.runner.verify.row_difference import FirstDifference, differing, same

Row = tuple[Any, ...]


class Happened(Event, type="since.happened"):
    """Something."""


class Counted(Projection, stream="S", subjects="s.{aggregate}", table="since_counted", key="id"):
    """Two columns, one of them money."""

    id: str
    n: int = 0
    money: Decimal = Decimal(0)

    @on(Happened)
    def happened(self, event: Happened) -> None: ...


def table_of(cls: type) -> Table:
    table = definition(cls).table
    assert table is not None
    return table


TABLE = table_of(Counted)

ONE, TWO, THREE = ("k", 1, "1"), ("k", 2, "1"), ("k", 3, "2")


@pytest.mark.parametrize(
    ("live", "states", "since"),
    [
        (TWO, [ONE, TWO, THREE], "v3"),
        (ONE, [ONE, TWO, THREE], "v2"),
        (None, [ONE, TWO], "v1"),
        (("k", 9, "1"), [ONE, TWO], "v1"),
        (("k", 3, "1"), [ONE, TWO, THREE], "v3"),
        (("k", 1, "2"), [ONE, TWO, THREE], "v2"),
        (("k", 1, "7"), [ONE, TWO, ONE, TWO], "v1"),
        (TWO, [ONE, TWO, None, ONE], "v3"),
        (TWO, [ONE, None], "v1"),
        (ONE, [], None),
    ],
)
def test_the_first_event_whose_trace_is_missing_or_wrong_is_named(
    live: Row | None, states: list[Row | None], since: str | None
) -> None:
    told = FirstDifference(TABLE, live)
    for number, row in enumerate(states, 1):
        told.note(f"v{number}", row)
    assert told.first_difference(live, states[-1] if states else None) == since


def test_of_a_row_that_has_moved_since_nothing_is_said() -> None:
    told = FirstDifference(TABLE, ONE)
    told.note("v1", ONE)
    told.note("v2", TWO)
    assert told.first_difference(THREE, TWO) is None


@pytest.mark.parametrize(
    ("one", "other", "places"),
    [
        (("k", 1, "1.5"), ("k", 1, "1.50"), []),
        (("k", 1, "0"), ("k", 1, "0.00"), []),
        (("k", 1, "1.5"), ("k", 1, "1.51"), [2]),
        (("k", 1, "1.5"), ("k", 2, None), [1, 2]),
    ],
)
def test_numbers_are_compared_as_postgresql_compares_them(one: Row, other: Row, places: list[int]) -> None:
    assert differing(TABLE, one, other) == places
    assert same(TABLE, one, other) == (not places)
