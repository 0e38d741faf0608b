"""Rows that hold what was looked up in other views of the set: verified, mended, shown as they were, and previewed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import pytest_asyncio
from tests.integration.preview.test_preview import preview
from tests.integration.preview.test_row_history import row
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import SCHEMA
from tests.support.set_lookups import (
    Happened,
    Left,
    Named,
    Ordered,
    Paid,
    Seen,
    looking_set,
    visited_set,
)

from projectionist.projections.compiled.definition import Definition, consumer_definition
from projectionist.runner.verify import refold_rows

pytestmark = pytest.mark.asyncio

EVENTS: list[Happened] = [
    ("c1", 1, Named("ann")),
    ("o1", 1, Ordered("c1", (1,))),
    ("c1", 2, Named("eve")),
    ("o1", 2, Paid("c1", 4)),
    ("o2", 1, Ordered("c1", (2, 3))),
    ("c1", 3, Left()),
    ("o2", 2, Paid("c1", 5)),
    ("o3", 1, Ordered("c2", ())),
    ("o1", 3, Ordered("c1", (9,))),
]
SUMMARY = [("o1", "", 1, 4), ("o2", "eve", 2, 5), ("o3", "?", 0, 0)]
LINES = [("o1", 0, 9, "/4"), ("o2", 0, 2, "eve/0"), ("o2", 1, 3, "eve/0")]


@pytest_asyncio.fixture
async def shop(rebuilds: RebuildHarness) -> SimpleNamespace:
    """A set in which names change between orders; what is looked up now is not what was looked up then."""
    found = looking_set(rebuilds.harness.stream)
    await rebuilds.harness.migrate(found.Shop)
    for name, version, event in EVENTS:
        await rebuilds.harness.publish(event, name, version)
    await rebuilds.harness.settle(found.Shop)
    assert await rebuilds.harness.rows("summary") == SUMMARY
    assert await rebuilds.harness.rows("lines", "1, 2") == LINES
    return found


def view(shop: SimpleNamespace, name: str) -> Definition:
    """A view of the set."""
    return next(one for one in consumer_definition(shop.Shop).views if one.name == name)


@pytest.mark.parametrize("sample", [None, 100])
async def test_verify_folds_what_is_looked_up_as_of_each_event(
    rebuilds: RebuildHarness, shop: SimpleNamespace, sample: int | None
) -> None:
    """A customer is renamed between two orders, and leaves: no row differs, at first or second hand."""
    for name, rows in (("Customer", 1), ("Summary", 3), ("Lines", 3)):
        found = await rebuilds.verify(view(shop, name), sample)
        assert (found.rows, found.drifted, found.not_judged) == (rows, 0, 0), name


@pytest.mark.parametrize("sample", [None, 100])
async def test_a_row_that_differs_is_not_judged_where_another_row_was_looked_up_for_it(
    rebuilds: RebuildHarness, shop: SimpleNamespace, sample: int | None
) -> None:
    """Live may have applied overlapping batches in another order; rows of one aggregate's own events are judged."""
    await rebuilds.harness.pool.execute(f"update {SCHEMA}.summary__g1 set name = 'x' where order_id = 'o2'")
    await rebuilds.harness.pool.execute(f"update {SCHEMA}.customers__g1 set payments = 7")
    summary = await rebuilds.verify(view(shop, "Summary"), sample)
    assert (summary.drifted, summary.not_judged_keys) == (0, ["o2"])
    customers = await rebuilds.verify(view(shop, "Customer"), sample)
    assert (customers.drifted, customers.not_judged) == (1, 0)


async def test_what_an_aggregates_own_events_make_is_judged_though_it_is_looked_up(
    rebuilds: RebuildHarness,
) -> None:
    """The row of the event's own aggregate, at this very version: read from the aggregate's subject alone."""
    found = looking_set(rebuilds.harness.stream, own_alone=True)
    await rebuilds.harness.migrate(found.Shop)
    for name, version, event in EVENTS:
        await rebuilds.harness.publish(event, name, version)
    await rebuilds.harness.settle(found.Shop)
    lines = view(found, "Lines")
    assert lines.is_exact
    assert (await rebuilds.verify(lines)).drifted == 0
    await rebuilds.harness.pool.execute(f"update {SCHEMA}.lines__g1 set \"of\" = 'x' where order_id = 'o2'")
    for sample in (None, 100):
        verified = await rebuilds.verify(lines, sample)
        assert (verified.drifted, verified.not_judged) == (2, 0)
    assert (await rebuilds.mend(lines, '["o2",1]')).changed is not None
    assert (await rebuilds.verify(lines)).drifted == 1


async def test_a_row_is_mended_and_shown_with_what_was_looked_up_then(
    rebuilds: RebuildHarness, shop: SimpleNamespace
) -> None:
    await rebuilds.harness.pool.execute(f"update {SCHEMA}.summary__g1 set name = 'x' where order_id = 'o2'")
    assert (await rebuilds.mend(view(shop, "Summary"), "o2")).changed is not None
    assert await rebuilds.harness.rows("summary") == SUMMARY
    first = await row(rebuilds, view(shop, "Summary"), "o1", "1")
    assert first.row == {"order_id": "o1", "name": "ann", "lines": 1, "paid": 0}
    line = await row(rebuilds, view(shop, "Lines"), '["o1",0]', "1")
    assert line.row is not None
    assert line.row["of"] == "ann/0"


async def test_a_preview_folds_what_is_looked_up_and_tries_failed_heads_with_it(
    rebuilds: RebuildHarness, shop: SimpleNamespace
) -> None:
    await rebuilds.harness.publish(Ordered("c1", (-1,)), "o4", 1)
    await rebuilds.harness.settle(shop.Shop)
    summary = await preview(rebuilds, view(shop, "Summary"))
    assert summary.differ == 0
    lines = await preview(rebuilds, view(shop, "Lines"))
    assert (lines.differ, [one.mended for one in lines.heads]) == (0, [False])
    await rebuilds.harness.pool.execute(f"update {SCHEMA}.summary__g1 set name = 'x' where order_id = 'o2'")
    summary = await preview(rebuilds, view(shop, "Summary"))
    assert (summary.differ, summary.looked_up) == (1, 1)


async def test_what_is_looked_up_is_folded_in_version_order_where_the_stream_differs(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second event stands first, and fails the handler of what is looked up without the one before it."""
    monkeypatch.setattr(refold_rows, "AT_ONCE", 1)
    live, found = rebuilds.harness, visited_set(rebuilds.harness.stream)
    await live.migrate(found.Shop)
    await live.publish(Paid("c", 10), "7", 2)
    await live.publish(Paid("c", 5), "7", 1)
    await live.publish(Seen(), "7", 3)
    await live.settle(found.Shop)
    assert await live.rows("visits") == [("7", "10/True")]

    verified = await rebuilds.verify(view(found, "Visit"), 100)

    assert (verified.rows, verified.drifted, verified.not_judged) == (1, 0, 0)
