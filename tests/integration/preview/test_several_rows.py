"""Looks before a deploy at events that have several rows: each row is told for itself, as far as it was reached."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.preview.test_event_check import check, of_type
from tests.integration.preview.test_preview import options, preview
from tests.integration.preview.test_row_history import row
from tests.support.rebuilding import RebuildHarness
from tests.support.several_rows import Cancelled, Closed, LineAdded, Placed, Renamed, StockMoved, several

from projectionist.projections import Delete, Projection, on
from projectionist.runner.preview import check_fold
from projectionist.runner.preview import preview as previewing
from projectionist.runner.preview.check_result import TroubleKind

pytestmark = pytest.mark.asyncio


async def some(rebuilds: RebuildHarness) -> Any:
    """Two orders, one of which a bad line stops, and stock that moved."""
    harness, s = rebuilds.harness, several(rebuilds.harness.stream)
    await harness.migrate(s.Lines, s.Stock)
    await harness.publish_all(
        [
            (Placed(("a", "b"), (1, 2)), "o-1", 1, "1"),
            (Renamed("b", "c"), "o-1", 2, "2"),
            (StockMoved("a", "x", "y", 3), "o-1", 3, "3"),
            (LineAdded(7, "z"), "o-2", 1, "4"),
            (Placed(("a", "b"), (1, -2)), "o-2", 2, "5"),
            (Cancelled(), "o-2", 3, "6"),
        ]
    )
    await harness.settle(s.Lines, s.Stock)
    return s


async def test_a_row_of_several_is_told_by_version(rebuilds: RebuildHarness) -> None:
    s = await some(rebuilds)

    for at, sku in (("0", None), ("1", "b"), ("2", "c"), ("3", "c")):
        then = await row(rebuilds, s.Lines, '["o-1", 1]', at)
        assert (then.row and then.row["sku"]) == sku, at
    other = await row(rebuilds, s.Lines, '["o-1", 0]', states=9)
    assert [one.event for one in other.states] == ["order/o-1 v1", "order/o-1 v2"]
    shared = await row(rebuilds, s.Stock, '["y", "a"]', "seq:3")
    assert (shared.row, shared.events) == ({"warehouse": "y", "sku": "a", "pieces": 3, "moves": 1}, 1)


def release(rebuilds: RebuildHarness, *, fails: str = "") -> type:
    """Lines as their next release: other pieces, bad lines are taken, and an article may fail."""

    class Lines(Projection, **options(rebuilds, table="lines", key=("order_id", "line_no"))):
        order_id: str
        line_no: int
        sku: str = ""
        pieces: int = 0

        @on(Placed, each=lambda event: range(len(event.skus)))
        def placed(self, event: Placed) -> None:
            self.sku = event.skus[self.line_no]
            self.pieces = event.pieces[self.line_no] + (self.sku == "b")
            if self.sku == fails:
                raise ValueError("no such line")

        @on(LineAdded)
        def added(self, event: LineAdded) -> None:
            self.sku = event.sku

        @on(Renamed, rows="order_id", when=lambda row, event: row.sku == event.old)
        def renamed(self, event: Renamed) -> None:
            self.sku = event.new

        @on(Cancelled, rows="order_id")
        def cancelled(self, event: Cancelled) -> Delete:
            return Delete()

    return Lines


@pytest.mark.parametrize("a_row", [0, 500], ids=["by subject", "in one pass"])
async def test_rows_that_would_differ_and_heads_that_would_be_mended_are_told(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, a_row: int
) -> None:
    monkeypatch.setattr(previewing, "A_ROW", a_row)
    await some(rebuilds)

    found = await preview(rebuilds, release(rebuilds))
    assert [(one.key, one.columns) for one in found.changes] == [('["o-1",1]', ["pieces"])]
    assert [(one.version, one.mended) for one in found.heads] == [(2, True)]

    failing = await preview(rebuilds, release(rebuilds, fails="b"))
    assert failing.failed == 1
    assert (failing.differ, failing.rows) == (0, 3), "rows of the order that fails are not compared"
    assert failing.unfinished == 2
    assert [one.mended for one in failing.heads] == [False]


async def test_a_head_that_takes_whatever_rows_are_there_is_tried_with_them(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness

    def cancelling(wrong: bool) -> type:
        class Lines(Projection, **options(rebuilds, table="lines", key=("order_id", "line_no"))):
            order_id: str
            line_no: int
            sku: str = ""

            @on(LineAdded)
            def added(self, event: LineAdded) -> None:
                self.sku = event.sku

            @on(Cancelled, rows="order_id")
            def cancelled(self, event: Cancelled) -> Delete:
                if wrong and self.sku == "b":
                    raise ValueError("not this one")
                return Delete()

        return Lines

    first = cancelling(wrong=True)
    await harness.migrate(first)
    for version, event in enumerate((LineAdded(1, "a"), LineAdded(2, "b"), Cancelled()), 1):
        await harness.publish(event, "o-1", version)
    await harness.settle(first)

    assert [one.mended for one in (await preview(rebuilds, first)).heads] == [False]
    assert [one.mended for one in (await preview(rebuilds, cancelling(wrong=False))).heads] == [True]


@pytest.mark.parametrize("at_once", [1, 100], ids=["spilled", "in memory"])
async def test_history_is_checked_with_all_rows_of_each_event(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(check_fold, "ROWS_AT_ONCE", at_once)
    s = await some(rebuilds)
    await rebuilds.harness.publish(StockMoved("a", "x", "x", 3), "o-3", 1)

    found = await check(rebuilds.harness, s.Lines, s.Stock, fold=True)
    lines, stock = found.consumers
    (wrong,) = of_type(lines, "order.placed").troubles.listed
    assert (wrong.kind, wrong.count) == (TroubleKind.HANDLER, 1)
    assert "fewer than none" in wrong.text
    assert lines.fold is not None
    assert (lines.fold.events, lines.fold.rows, lines.fold.blocked) == (3, 3, 1)
    (twice,) = of_type(stock, "stock.moved").troubles.listed
    assert (twice.kind, "gives one key twice" in twice.text) == (TroubleKind.KEY, True)
    assert stock.fold is not None
    assert (stock.fold.events, stock.fold.rows) == (1, 2)


async def test_a_preview_of_an_aggregate_has_the_shared_rows_that_it_took_by_a_prefix(
    rebuilds: RebuildHarness,
) -> None:
    harness, s = rebuilds.harness, several(rebuilds.harness.stream)
    await harness.migrate(s.Stock)
    await harness.publish(StockMoved("a", "x", "y", 3), "o-1", 1)
    await harness.publish(Closed("x"), "o-2", 1)
    await harness.settle(s.Stock)
    found = await preview(rebuilds, s.Stock, aggregate="order/o-2")
    assert (found.rows, found.events, found.differ) == (1, 2, 0)
