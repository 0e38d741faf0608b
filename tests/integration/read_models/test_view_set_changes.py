"""What `migrate` does to a set: its first views, one that is added or taken out, a consumer that becomes a set."""

from __future__ import annotations

from types import new_class
from typing import Any

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.view_sets import Paid, Placed, view_set

from projectionist.core.postgres import connections as db
from projectionist.outbox.intents.keys import key_maker
from projectionist.projections.compiled.definition import consumer_definition
from projectionist.runner.read_models.change_plan import ReadModelError
from projectionist.runner.read_models.migrate import ReadModels

pytestmark = pytest.mark.asyncio


async def planned(live: ConsumerHarness, cls: type) -> list[tuple[str, str]]:
    """What is to be done, view by view."""
    connection = await db.connect(live.settings.postgres, application_name="test")
    try:
        found = await ReadModels(connection, SCHEMA).plan([consumer_definition(cls)])
    finally:
        await connection.close()
    return [(change.view, change.what) for change in found]


async def test_the_views_of_a_new_set_are_made_and_live_at_once(live: ConsumerHarness) -> None:
    shop = view_set(live.stream, order=[0, 3])
    assert await planned(live, shop.Shop) == [("Shop.Summary", "create"), ("Shop.Receipts", "create")]
    await live.migrate(shop.Shop)
    assert await planned(live, shop.Shop) == []
    more = view_set(live.stream)
    assert await planned(live, more.Shop) == [("Shop.Lines", "create"), ("Shop.Spend", "create")], (
        "none has run"
    )


async def test_a_view_that_is_added_later_joins_and_the_others_go_on_without_it(
    live: ConsumerHarness,
) -> None:
    few, more = view_set(live.stream, order=[0, 1]), view_set(live.stream, order=[0, 1, 2])
    await live.migrate(few.Shop)
    async with batch_drivers(live, few.Shop) as (driver,):
        await driver.settle(driver.read(Placed("ann", (5,)), "o1", 1))
        assert await planned(live, more.Shop) == [("Shop.Spend", "join")]
        await live.migrate(more.Shop)
        assert await planned(live, more.Shop) == [("Shop.Spend", "needs a rebuild")]
        await driver.settle(driver.read(Paid(3), "o1", 2))
    async with batch_drivers(live, more.Shop) as (other,):
        await other.settle(other.read(Placed("bob", ()), "o2", 1))

    assert await live.rows("summary") == [("o1", "ann", 1, 3), ("o2", "bob", 0, 0)]


async def test_a_view_that_the_class_lists_no_more_keeps_its_rows(live: ConsumerHarness) -> None:
    shop, fewer = view_set(live.stream), view_set(live.stream, order=[0, 1, 3])
    await live.migrate(shop.Shop)
    async with batch_drivers(live, shop.Shop) as (driver,):
        await driver.settle(driver.read(Placed("ann", (5,)), "o1", 1))
    assert await planned(live, fewer.Shop) == [("Shop.Spend", "retire")]
    await live.migrate(fewer.Shop)
    assert await planned(live, fewer.Shop) == []
    async with batch_drivers(live, fewer.Shop) as (driver,):
        await driver.settle(driver.read(Placed("ann", (6,)), "o2", 1))

    assert await live.rows("spend") == [("ann", 1, 5)]
    assert [row[0] for row in await live.rows("summary")] == ["o1", "o2"]
    assert await planned(live, shop.Shop) == [("Shop.Spend", "join")], "listed again it is built anew"


async def test_a_consumer_becomes_a_set_and_nothing_is_applied_twice(live: ConsumerHarness) -> None:
    shop = view_set(live.stream, order=[1, 0], formerly=("Summary",))
    reads: dict[str, Any] = {
        "stream": live.stream.name,
        "subjects": live.stream.subject("order", "{aggregate}"),
        "effects": "beginning",
    }
    alone = new_class("Summary", (shop.Summary,), {"table": "summary", "key": "order_id", **reads})
    await live.migrate(alone)
    async with batch_drivers(live, alone) as (driver,):
        await driver.settle(driver.read(Placed("ann", (5,)), "o1", 1), driver.read(Paid(3), "o1", 2))
    assert await planned(live, shop.Shop) == [("Shop.Summary", "rename"), ("Shop.Lines", "join")]
    await live.migrate(shop.Shop)

    async with batch_drivers(live, shop.Shop) as (driver,):
        await driver.settle(driver.read(Paid(3), "o1", 2), driver.read(Paid(4), "o1", 3))
    assert await live.rows("summary") == [("o1", "ann", 1, 7)]
    assert await inspection.rows(live, "consumers", "name") == [("Shop",)]
    key = key_maker("Summary", "Receipt")
    assert sorted(await inspection.rows(live, "intents", "key")) == sorted(
        (key("shop", f"o1:{version}", None),) for version in (2, 3)
    ), "providers would take another key for another effect"


async def test_a_set_that_says_it_was_two_consumers_is_refused_and_neither_is_changed(
    live: ConsumerHarness,
) -> None:
    """Each has applied what it has applied: the first would be renamed, and the second be in its way."""
    shop = view_set(live.stream, order=[0, 2], formerly=("Summary", "Spend"))
    reads = {"stream": live.stream.name, "subjects": live.stream.subject("order", "{aggregate}")}
    for cls, table, key in ((shop.Summary, "summary", "order_id"), (shop.Spend, "spend", "customer")):
        await live.migrate(new_class(cls.__name__, (cls,), {"table": table, "key": key, **reads}))
    with pytest.raises(ReadModelError, match="'Shop' says that it was 'Spend' and 'Summary'"):
        await live.migrate(shop.Shop)
    assert sorted(await inspection.rows(live, "consumers", "name")) == [("Spend",), ("Summary",)]


async def test_a_set_that_lists_none_of_what_it_says_it_was_is_refused(live: ConsumerHarness) -> None:
    shop, other = (
        view_set(live.stream, order=[0]),
        view_set(live.stream, order=[1], name="New", formerly=("Shop",)),
    )
    await live.migrate(shop.Shop)
    with pytest.raises(ReadModelError, match="'New' lists none of the views of consumer 'Shop'"):
        await planned(live, other.Shop)
