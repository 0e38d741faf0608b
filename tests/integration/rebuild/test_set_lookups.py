"""Builds of views that look up others of their set: as of each event, with what they look up built along."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.integration.batch.test_set_lookups import histories, named, tables
from tests.support import inspection
from tests.support.rebuilding import RebuildHarness
from tests.support.set_lookups import (
    Happened,
    Named,
    Ordered,
    Paid,
    Seen,
    folded,
    looking_set,
    visited_set,
)

from projectionist.projections.compiled.definition import consumer_definition
from projectionist.runner.database.queries import RebuildError

pytestmark = pytest.mark.asyncio


async def settled(rebuilds: RebuildHarness, shop: Any, events: list[Happened]) -> list[Happened]:
    """Store events and have one runner apply them in their order; what they were."""
    live = rebuilds.harness
    await live.publish_all((event, name, version, f"{name}:{version}") for name, version, event in events)
    await live.settle(shop.Shop)
    return events


async def test_a_build_folds_what_is_looked_up_as_of_each_event_in_bulk_and_behind_it(
    rebuilds: RebuildHarness,
) -> None:
    """A customer is renamed between two orders, before the build and while it goes on."""
    live, shop = rebuilds.harness, looking_set(rebuilds.harness.stream)
    await live.migrate(shop.Shop)
    events = await settled(rebuilds, shop, [*named(), *histories(12, random.Random(3))])
    events += await settled(rebuilds, shop, [("c0", 2, Named("anna")), ("x", 1, Ordered("c0", (1, 2)))])
    async with rebuilds.reading(shop.Shop) as building:
        more: list[Happened] = [
            ("c0", 3, Named("anne")),
            ("y", 1, Ordered("c0", (3,))),
            ("y", 2, Paid("c0", 4)),
        ]
        events += await settled(rebuilds, shop, more)
    done = await building

    assert [(one.view, one.compared.differences) for one in done.views] == [
        ("Customer", []),
        ("Summary", []),
        ("Lines", []),
    ]
    assert await tables(live) == folded(events)


async def test_a_view_that_looks_up_others_is_built_with_them_and_goes_back_with_none(
    rebuilds: RebuildHarness,
) -> None:
    live = rebuilds.harness
    few, shop = looking_set(live.stream, order=[0, 1, 3]), looking_set(live.stream)
    await live.migrate(few.Shop)
    events = await settled(
        rebuilds, few, [*named(), ("c1", 2, Named("rob")), ("o1", 1, Ordered("c1", (5, 6)))]
    )
    events += await settled(rebuilds, few, [("c1", 3, Named("bert")), ("o2", 1, Ordered("c1", (7,)))])
    await live.migrate(shop.Shop)

    done = await rebuilds.rebuild(shop.Shop, shop.Lines)

    assert [(one.view, one.generation) for one in done.views] == [
        ("Customer", 2),
        ("Summary", 2),
        ("Lines", 1),
    ]
    assert await tables(live) == folded(events)
    with pytest.raises(RebuildError, match="Summary looks up Customer, whose rows are not as they were"):
        await rebuilds.rebuild(shop.Shop, shop.Summary, back_to=1)
    events += await settled(rebuilds, shop, [("o3", 1, Ordered("c1", (8,)))])
    assert await tables(live) == folded(events)
    assert await inspection.count(live, "positions") == 6


@pytest.mark.parametrize("batches", [1, 3])
async def test_the_own_row_of_another_type_of_aggregate_is_none_however_it_is_folded(
    rebuilds: RebuildHarness, batches: int
) -> None:
    """A customer that has the id of an order: live in one batch and in several, built, and verified."""
    live, shop = rebuilds.harness, visited_set(rebuilds.harness.stream)
    await live.migrate(shop.Shop)
    for number in range(batches):
        await live.publish(Paid("c", 5 + number), "7", number + 1, place="order")
        await live.publish(Seen(), "7", number + 1, kind="customer", place="order")
        if batches > 1:
            await live.settle(shop.Shop)
    await live.settle(shop.Shop)
    assert await live.rows("visits") == [("7", "/False")]

    done = await rebuilds.rebuild(shop.Shop)

    assert [one.compared.differences for one in done.views] == [[], []]
    await live.publish(Seen(), "7", batches + 1, kind="customer", place="order")
    await live.settle(shop.Shop)
    assert await live.rows("visits") == [("7", "/False")]
    visits = next(one for one in consumer_definition(shop.Shop).views if one.name == "Visit")
    assert visits.is_exact
    assert (await rebuilds.verify(visits)).drifted == 0
