"""`given(…).when(…)`: events come through JSON, upcasts, keys and conditions, by the code that runs live."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from projectionist.api import (
    Delete,
    Envelope,
    Event,
    Intent,
    Projection,
    ProjectionistError,
    Reactor,
    Refuse,
    SqlProjection,
    Tx,
    absent,
    on,
    upcast,
)
from projectionist.testing import OldEvent, given


class LinePriced(Event, type="line.priced", schema=2):
    shop: str
    price: Decimal
    tags: tuple[str, ...] = ()


@upcast("line.priced", schema=1)
def in_cents(document: dict[str, object]) -> dict[str, object]:
    return {**document, "price": str(Decimal(int(str(document["cents"]))) / 100)}


class LineTaken(Event, type="line.taken"):
    count: int


class LineDropped(Event, type="line.dropped"):
    pass


class LineSeen(Event, type="line.seen"):
    pass


class Told(Intent, provider="email"):
    line: str
    since: datetime | None = None


class Lines(
    Projection,
    stream="LINES",
    subjects=("lines.line.{id}", "lines.cart.*.{id}"),
    table="lines_of_test",
    key="line",
):
    """One row a line."""

    line: str
    price: Decimal = Decimal(0)
    left: int = 3
    tags: list[str] = []

    @on(LinePriced)
    def priced(self, event: LinePriced) -> None:
        self.price, self.tags = event.price, list(event.tags)

    @on(LineTaken, when=lambda row, event: row.left >= event.count)
    def taken(self, event: LineTaken) -> Told:
        if event.count < 0:
            raise Refuse("less than nothing")
        self.left -= event.count
        return Told(line=self.line)

    @on(LineDropped)
    def dropped(self, event: LineDropped) -> Delete:
        return Delete()


class ShopsOfLines(Projection, stream="LINES", subjects="lines.line.{id}", table="shops_of_test", key="shop"):
    """One row a shop, fed by all lines."""

    shop: str
    first: str = ""

    @on(LinePriced, key="shop", when=absent)
    def priced(self, event: LinePriced, envelope: Envelope) -> None:
        self.first = envelope.aggregate_id or ""


class LineMailer(Reactor, stream="LINES", subjects="lines.>"):
    @on(LinePriced)
    def priced(self, event: LinePriced, envelope: Envelope) -> Told:
        return Told(line=envelope.aggregate_id or "", since=envelope.time)


class LineJournal(SqlProjection, stream="LINES", subjects="lines.line.{id}"):
    tables = {"line_journal_of_test": "line text primary key"}

    @on(LineSeen)
    async def seen(self, tx: Tx, event: LineSeen) -> None: ...


def test_a_row_holds_what_postgresql_would_give_back_of_what_json_carried() -> None:
    story = given(Lines).when("line/l-1", LinePriced("a", Decimal("1.50"), ("x", "y")))
    assert story.row("l-1") == Lines("l-1", Decimal("1.50"), 3, ["x", "y"])


def test_an_old_event_comes_through_its_upcast() -> None:
    story = given(Lines).when("line/l-1", OldEvent("line.priced", {"shop": "a", "cents": 150}, schema=1))
    assert story.row("l-1").price == Decimal("1.5")


def test_a_condition_is_asked_of_the_given_row_and_says_so() -> None:
    story = given(Lines, Lines(line="l-1", left=1)).when("line/l-1", LineTaken(2), LineTaken(1), LineSeen())
    assert story.row("l-1").left == 0
    assert story.intents == [Told(line="l-1")]
    assert story.skipped == ["condition false", "no handler"]


def test_a_key_of_the_event_and_the_envelope_are_those_of_the_live_run() -> None:
    story = given(ShopsOfLines)
    story.when("line/l-1", LinePriced("a", Decimal(1))).when("line/l-2", LinePriced("a", Decimal(2)))
    assert story.rows == {"a": ShopsOfLines(shop="a", first="l-1")}
    assert story.skipped == ["condition false"]


def test_a_row_that_is_deleted_is_not_there() -> None:
    story = given(Lines, Lines(line="l-1")).when("line/l-1", LineDropped())
    assert story.rows == {}
    with pytest.raises(AssertionError, match=r"no row 'l-1' of Lines\. Rows: none"):
        story.row("l-1")


def test_a_failure_nobody_asked_about_is_raised_with_its_reason() -> None:
    story = given(Lines).when("line/l-1", LineTaken(-1), LineTaken(1)).when("line/l-2", LineTaken(1))
    with pytest.raises(AssertionError, match="Refuse: less than nothing"):
        story.row("l-2")
    assert story.failed == ["Refuse: less than nothing"]
    assert story.row("l-2").left == 2
    assert story.skipped == ["behind a failed event"]
    assert list(story.rows) == ["l-2"]


def test_two_types_of_aggregates_share_no_row() -> None:
    story = given(Lines).when("line/1", LineTaken(1)).when("cart/1", LineTaken(1))
    assert "is the id of aggregates of type 'line'" in story.failed[0]
    assert story.row("1").left == 2


def test_a_reactor_has_intents_and_no_rows() -> None:
    at = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    story = given(LineMailer).when("line/l-1", LinePriced("a", Decimal(1)), time=at)
    assert story.intents == [Told(line="l-1", since=at)]
    with pytest.raises(ProjectionistError, match="is a Reactor, which has no rows"):
        story.row("l-1")


def test_what_cannot_be_tested_so_says_what_to_do() -> None:
    with pytest.raises(ProjectionistError, match="the fixture `projectionist`"):
        given(LineJournal)
    with pytest.raises(ProjectionistError, match="Write type/id"):
        given(Lines).when("l-1", LineTaken(1))
    wrong: int = "many"  # type: ignore[assignment]
    with pytest.raises(ProjectionistError, match="no consumer could read this LineTaken"):
        given(Lines).when("line/l-1", LineTaken(wrong))
    with pytest.raises(ProjectionistError, match=r"LineTaken'> is no event with a type\. Give an instance"):
        given(Lines).when("line/l-1", LineTaken)  # type: ignore[arg-type]
    assert "line.priced" in given(Lines).when("line/l-1", OldEvent("line.priced", {}, schema=3)).failed[0]
