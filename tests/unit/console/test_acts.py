"""What forms say, as acts take it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from projectionist.console.acts.quarantine_acts import replacements
from projectionist.console.screens.audit import cell
from projectionist.console.screens.consumers import counts_by_type, spoken
from projectionist.console.screens.journeys import missing
from projectionist.console.screens.login import typed
from projectionist.core.operator import NotThere
from projectionist.runner.admin.event_history import AggregateStatus
from projectionist.runner.consumers.status import Counted


def test_headers_are_written_a_line_each_and_left_out_by_name() -> None:
    assert replacements(" ce-id=e=1 \r\n\r\nx=\n", "traceparent  x-old") == {
        "traceparent": None,
        "x-old": None,
        "ce-id": "e=1",
        "x": "",
    }
    assert replacements("", "") == {}


@pytest.mark.parametrize("line", ["ce-id", "=value", "a b"])
def test_a_line_that_is_no_header_is_refused(line: str) -> None:
    with pytest.raises(NotThere, match="is not NAME=VALUE"):
        replacements(line, "")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        (" \t=1", "' \\t=1"),
        ("\rplain", "'\\rplain"),
        ("\N{FULLWIDTH EQUALS SIGN}1", "'\N{FULLWIDTH EQUALS SIGN}1"),
        ("\N{FULLWIDTH COMMERCIAL AT}x", "'\N{FULLWIDTH COMMERCIAL AT}x"),
        ("\N{SMALL PLUS SIGN}1", "'\N{SMALL PLUS SIGN}1"),
        ("\N{MINUS SIGN}1", "'\N{MINUS SIGN}1"),
        ("a=1", "a=1"),
        ("", ""),
        (None, ""),
        (7, "7"),
    ],
)
def test_a_cell_of_the_audit_is_no_formula_of_a_spreadsheet(value: object, told: str) -> None:
    assert cell(value) == told


def test_what_a_page_has_put_into_a_form_is_not_what_somebody_typed() -> None:
    form = {
        "token": "t",
        "seen": "1",
        "link": "l",
        "next": "/",
        "name": "ann",
        "reason": "moved",
        "data": " ",
    }
    assert typed(form) == {"reason": "moved"}


def test_what_is_counted_is_told_in_words() -> None:
    assert spoken("parked_blocked") == "parked behind others"
    assert spoken("some_thing") == "some thing"
    assert spoken("applied") == "applied"


def test_outcomes_beyond_the_columns_of_a_table_are_told_in_words_the_most_first() -> None:
    counted = [
        Counted("Orders", "order.paid", "applied", 7),
        Counted("Orders", "order.paid", "stale", 2),
        Counted("Orders", "order.paid", "parked_gap", 30),
        Counted("Orders", "order.noted", "failed", 1),
        Counted("Orders", "order.noted", "skipped", 0),
    ]
    paid, noted = counts_by_type(counted)
    assert paid == ("order.paid", [("applied", 7), ("failed", 0)], "30 parked at a gap, 2 stale")
    assert noted == ("order.noted", [("applied", 0), ("failed", 1)], "")


@pytest.mark.parametrize(
    ("parked", "held", "told"),
    [
        ([4, 5], 2, "Version 3 is missing."),
        ([6], 1, "Versions 3 to 5 are missing."),
        ([3], 1, ""),
        ([], 0, ""),
        ([9], 2, ""),
    ],
    ids=["one", "several", "failed", "clear", "not all seen"],
)
def test_versions_that_are_missing_are_named_where_all_that_waits_is_seen(
    parked: list[int], held: int, told: str
) -> None:
    events = [{"version": 2, "state": "applied"}, *({"version": n, "state": "parked"} for n in parked)]
    status = AggregateStatus(
        consumer="Orders",
        version=2,
        head="gap",
        finding=None,
        parked=held,
        due=None,
        events=events,
        removed=0,
    )
    assert missing(status) == told
    assert missing(replace(status, head="waiting", finding="lost")) == told
    assert missing(replace(status, head="waiting")) == "", (
        "an event has failed where versions may be left out"
    )
