"""The judgement over rivals: what it calls wrong, and what the page says of it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.support.rivals.hardships import HARDSHIPS
from tests.support.rivals.load import FINE, ODD, Found, Hardship, RivalOrder, judge, messages, orders
from tests.support.rivals.report import page
from tests.support.rivals.trial import TrialResult

ONE, OTHER = RivalOrder("o1", 5, FINE), RivalOrder("o2", 7, ODD)
WELL = {"o1": ("paid", 5, ["placed", "fine", "paid"]), "o2": ("paid", 7, ["placed", "odd", "paid"])}


@pytest.mark.parametrize(
    ("rows", "receipts", "found"),
    [
        (WELL, {"o1": 1, "o2": 1}, Found()),
        ({"o1": WELL["o1"]}, {"o1": 1, "o2": 1}, Found(rows=1)),
        (WELL | {"o1": ("paid", 6, WELL["o1"][2])}, {"o1": 1, "o2": 1}, Found(rows=1)),
        (WELL | {"o1": ("paid", 5, ["placed", "paid", "fine"])}, {"o1": 1, "o2": 1}, Found(rows=1)),
        (WELL, {"o1": 1}, Found(lost=1)),
        (WELL, {"o1": 2, "o2": 1}, Found(doubled=1)),
    ],
)
def test_every_order_is_judged_by_its_row_and_its_receipts(
    rows: dict[str, tuple[str, int, list[str]]], receipts: dict[str, int], found: Found
) -> None:
    assert judge([ONE, OTHER], rows, Counter(receipts)) == found
    assert found.clean is (found == Found())


@pytest.mark.parametrize("hardship", HARDSHIPS, ids=lambda one: one.name)
def test_every_event_is_published_and_only_as_the_hardship_says(hardship: Hardship) -> None:
    made = orders(Random(1), 200, hardship)
    sent = messages(Random(2), made, hardship)

    assert [{one.version for one in burst} for burst in sent] == [{1, 2, 3}] * 200
    twice = sum(len(burst) > 3 for burst in sent)
    late = sum([one.version for one in burst] != sorted(one.version for one in burst) for burst in sent)
    odd = sum(one.note == ODD for one in made)
    assert (bool(twice), bool(late), bool(odd)) == (
        bool(hardship.again),
        bool(hardship.late),
        bool(hardship.odd),
    )


def test_the_page_says_what_is_wrong_and_who_had_to_be_started_again() -> None:
    def result(contender: str, **more: object) -> TrialResult:
        given = {"begun": Found(), "found": Found(), "recovered_s": 3.2, "killed": 5, "ended": 0} | more
        return TrialResult(contender=contender, hardship="odd", orders=200, **given)  # type: ignore[arg-type] # a table

    text = page(
        [
            result("Projectionist", begun=Found(rows=4)),
            result("FastStream", found=Found(rows=2, lost=1), recovered_s=None, begun=Found(rows=2, lost=1)),
            result("eventsourcing", ended=3),
        ],
        ["seed 1"],
        60.0,
    )

    (row,) = [line for line in text.splitlines() if line.startswith("| **odd**")]
    assert "| all well, after 3 s; before the release: **4 rows** |" in row
    assert "| **2 rows**, **1 lost**, never well |" in row
    assert "| all well, after 3 s; ended by itself 3 times |" in row
    assert "- seed 1" in text
