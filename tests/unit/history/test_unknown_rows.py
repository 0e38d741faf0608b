"""Which rows half a history may have touched, and which versions lead to where live stands."""

from __future__ import annotations

from typing import Any

import pytest

from projectionist.projections import Event, Projection, definition, on
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.history.applied_filter import AggregateProgress
from projectionist.runner.history.unknown_rows import Lost, MetVersions, UnknownRows


class Own(Event, type="own"):
    """Goes into the row of its aggregate."""


class Shared(Event, type="shared"):
    """Goes into a row that its content names."""

    where: str


POLICY: dict[str, Any] = {"stream": "S", "subjects": "s.{aggregate}", "key": "id"}


class OwnRows(Projection, table="own_rows", **POLICY):
    """A row an aggregate."""

    id: str

    @on(Own)
    def own(self, event: Own) -> None: ...


class NumberedRows(Projection, table="numbered_rows", **POLICY):
    """The same, by a number."""

    id: int

    @on(Own)
    def own(self, event: Own) -> None: ...


class SharedRows(OwnRows, table="shared_rows", **POLICY):
    """Some of them shared."""

    @on(Shared, key="where")
    def shared(self, event: Shared) -> None: ...


@pytest.mark.parametrize(
    ("model", "lost", "untold", "told"),
    [
        (OwnRows, Lost("order/1", 1, 1, "own"), ["1"], ["2"]),
        (NumberedRows, Lost("order/1", 1, 1, "own"), [1], [2]),
        (OwnRows, Lost("order/1", 1, 1, "nobody's"), [], ["1", "2"]),
        (OwnRows, Lost("order/1", 1), ["1"], ["2"]),
        (OwnRows, Lost(), ["1", "2"], []),
        (NumberedRows, Lost("order/not-a-number", 1, 1, "own"), [1, 2], []),
        (SharedRows, Lost("order/1", 1, 1, "own"), ["1"], ["2"]),
        (SharedRows, Lost("order/1", 1, 1, "shared"), ["1", "2"], []),
        (SharedRows, Lost("order/1", 1, 1, "nobody's"), [], ["1", "2"]),
        (SharedRows, Lost("order/1", 1), ["1", "2"], []),
        (SharedRows, Lost(None, None, 7, "shared"), ["1", "2"], []),
    ],
)
def test_a_lost_event_leaves_open_the_rows_it_may_have_touched_and_no_others(
    model: type, lost: Lost, untold: list[Any], told: list[Any]
) -> None:
    holes = UnknownRows(definition(model))
    holes.add(lost)
    assert [holes.at(key) for key in untold] == [lost] * len(untold)
    assert [holes.at(key) for key in told] == [None] * len(told)


def test_of_several_events_that_a_row_lacks_the_lowest_version_is_named() -> None:
    holes = UnknownRows(definition(OwnRows))
    for version in (4, 2, 3):
        holes.add(Lost("order/1", version, version, "own"))
    assert holes.at("1") == Lost("order/1", 2, 2, "own")


@pytest.mark.parametrize(
    ("start", "cap", "versions", "over", "missing"),
    [
        (0, 3, [1, 2, 3], [], None),
        (0, 3, [3, 1, 2], [], None),
        (0, 3, [1, 3], [], 2),
        (0, 3, [1, 3], [(2, 2)], None),
        (0, 3, [2, 3], [], 1),
        (0, 3, [2, 3], [(1, 1)], None),
        (0, 3, [1, 2], [(3, 3)], None),
        (2, 5, [1, 2, 3, 4, 5], [], None),
        (2, 5, [4, 5], [], 3),
        (0, 2, [1, 2, 3, 4], [], None),
        (0, 6, [1, 5, 6, 3], [(2, 2), (4, 4)], None),
        (0, 6, [1, 5, 6], [(2, 2), (4, 4)], 3),
        (0, 0, [], [], None),
    ],
)
def test_versions_met_and_stepped_over_reach_the_live_head_or_the_first_gap_is_named(
    start: int, cap: int, versions: list[int], over: list[tuple[int, int]], missing: int | None
) -> None:
    decided = [
        {
            "kind": "skip",
            "aggregate": "order/1",
            "version": first,
            "upto": last,
            "source": None,
            "id": None,
            "seq": None,
            "headers": None,
            "data": None,
        }
        for first, last in over
    ]
    reached = MetVersions({"order/1": AggregateProgress(start, cap)}, Decisions(decided))
    for version in versions:
        reached.meet("order/1", version)
    reached.meet("order/never-applied", 1)
    assert reached.missing() == ([] if missing is None else [Lost("order/1", missing)])
