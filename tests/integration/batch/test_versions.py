"""Order inside an aggregate: old versions, missing ones, versions used twice, and what was stepped over."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import UNHURRIED, ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderShipped, shop

from projectionist.core.operator import Act
from projectionist.core.settings.settings import BatchLimits as Limits

pytestmark = pytest.mark.asyncio
ACT = Act("ops", "the test wants it")


async def test_an_old_version_of_an_unknown_identity_is_stale(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")
    await live.settle(s.Orders)
    live.tampered = True
    await live.pool.execute("delete from projectionist.inbox")  # as after a purge: only the position is left
    await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")

    await live.settle(s.Orders)

    assert await live.states(s.Orders) == {"a": "stale"}
    assert await live.rows("orders") == [("o1", "placed", 500, '["placed"]')]
    assert await inspection.count_incidents(live) == 0


async def test_a_future_version_is_parked_and_acked_and_others_go_on(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPaid(), "o1", 3, id="c")
    await live.publish(OrderPlaced("bob", 7), "o2", 1, id="x")

    await live.settle(s.Orders, policy=UNHURRIED)

    assert await live.states(s.Orders) == {"c": "parked", "x": "applied"}
    assert await live.head(s.Orders, "order/o1") == (0, "gap", 1)
    assert await inspection.rows(live, "parked", "cause", "version", "attempts") == [("gap", 3, 0)]
    assert await live.rows("orders") == [("o2", "placed", 7, '["placed"]')]
    assert await live.unaccounted(s.Orders) == []


async def test_a_gap_filled_after_hours_drains_in_order_with_its_effects(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPaid(), "o1", 4)
    await live.publish(OrderNoted("two"), "o1", 3)
    await live.publish(OrderPlaced("ann", 500), "o1", 1)
    await live.settle(s.Orders, policy=UNHURRIED)
    assert await live.head(s.Orders, "order/o1") == (1, "gap", 2)
    await live.pool.execute(
        "update projectionist.parked set parked_at = parked_at - interval '9 hours'; "
        "update projectionist.positions set due = due - interval '9 hours'; "
        "update projectionist.inbox set received = received - interval '9 hours'"
    )

    await live.publish(OrderNoted("one"), "o1", 2)
    await live.settle(s.Orders)

    assert await live.rows("orders") == [("o1", "paid", 500, '["placed", "one", "two", "paid"]')]
    assert await live.head(s.Orders, "order/o1") == (4, "clear", 0)
    assert await inspection.count_parked(live) == 0
    assert await inspection.count_intents(live) == 1
    assert set((await live.states(s.Orders)).values()) == {"applied"}


async def test_one_batch_in_any_order_needs_no_parking(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        history = [OrderPlaced("ann", 500), OrderNoted("a"), OrderNoted("b"), OrderPaid()]
        batch = [driver.read(event, "o1", version) for version, event in enumerate(history, 1)]
        (applied,) = await driver.settle(*reversed(batch))

    assert applied.writes.parked == []
    assert (await live.rows("orders"))[0][3] == '["placed", "a", "b", "paid"]'


@pytest.mark.parametrize("first", [1, 2], ids=["the first came first", "the second came first"])
async def test_the_first_two_events_of_an_aggregate_in_two_processes_meet(
    live: ConsumerHarness, first: int
) -> None:
    """The position did not exist when either began: whoever comes second has to see what the other did."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, drivers=2) as drivers:
        events = {1: OrderPlaced("ann", 500), 2: OrderPaid()}
        for driver, version in zip(drivers, (first, 3 - first), strict=True):
            await driver.settle(driver.read(events[version], "o1", version))

    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)
    assert await inspection.count_parked(live) == 0


async def test_a_parked_head_that_could_go_on_is_taken_up_by_the_sweep(live: ConsumerHarness) -> None:
    """No batch leaves one behind; if anything ever did, it would not wait for the next event."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPaid(), "o1", 2)
    await live.settle(s.Orders)
    await live.pool.execute(
        "update projectionist.positions set version = 1, due = clock_timestamp() - interval '1 second'"
    )

    await live.settle(s.Orders)

    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)


@pytest.mark.parametrize("where", ["in one batch", "against an applied one", "against a parked one"])
async def test_a_version_used_twice_is_an_incident_and_the_first_stands(
    live: ConsumerHarness, where: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    version = 3 if where == "against a parked one" else 2
    await live.publish(OrderPlaced("ann", 500), "o1", 1)
    await live.publish(OrderNoted("first"), "o1", version, id="first")
    async with live.running(s.Orders, policy=UNHURRIED):  # what lacks is published, not looked for
        if where != "in one batch":
            await live.settled(s.Orders)
        seq = await live.publish(OrderNoted("second"), "o1", version, id="second")
        await live.settled(s.Orders)
        if version == 3:
            await live.publish(OrderNoted("between"), "o1", 2)
            await live.settled(s.Orders)

    assert '"first"' in (await live.rows("orders"))[0][3]
    assert '"second"' not in (await live.rows("orders"))[0][3]
    assert await inspection.rows(live, "incidents", "kind", "seq", "id", "aggregate", "version") == [
        ("version_reuse", seq, "second", "order/o1", version)
    ]
    assert await inspection.rows(live, "decisions", "kind", "aggregate", "version", "id") == [
        ("winner", "order/o1", version, "first")
    ]
    assert (await live.states(s.Orders))["second"] == "quarantined"
    assert await inspection.rows(live, "quarantine", "reason", "id") == [("version_reuse", "second")]
    assert (await live.head(s.Orders, "order/o1"))[1:] == ("clear", 0)
    assert await live.unaccounted(s.Orders) == []


async def test_a_version_used_twice_while_its_first_holder_is_unread_is_found_by_the_key(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderNoted("first"), "o1", 5, id="first", seq=1))
        both = [driver.read(OrderNoted(n), "o1", v, id=n, seq=v) for n, v in (("second", 5), ("six", 6))]
        await driver.settle(*both)

    assert await live.head(s.Orders, "order/o1") == (0, "gap", 2)
    assert await inspection.rows(live, "parked", "id", order="version") == [("first",), ("six",)]
    assert await inspection.rows(live, "incidents", "kind", "id") == [("version_reuse", "second")]


async def test_a_redelivery_of_the_loser_tells_nothing_new(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1, id="first", seq=1))
        for delivered in (1, 2):
            loser = driver.read(OrderPlaced("ann", 2), "o1", 1, id="second", seq=2, delivered=delivered)
            await driver.settle(loser)

    assert await inspection.count_incidents(live) == 1
    assert await inspection.count_quarantined(live) == 1
    assert await inspection.count_decisions(live) == 1


async def test_ignored_types_leave_no_gap_and_are_counted_by_type(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderShipped(), "o1", 1)
    await live.publish(OrderPlaced("ann", 500), "o1", 2)
    await live.publish(OrderShipped(), "o1", 4)
    await live.publish(OrderPaid(), "o1", 3)

    await live.settle(s.Orders)

    assert await live.head(s.Orders, "order/o1") == (4, "clear", 0)
    assert await live.fetch("select type, sum(n) from {s}.counters where outcome = 'ignored' group by 1") == [
        ("order.shipped", 2)
    ]


async def test_what_turns_up_after_its_gap_was_accepted_is_late_and_stays_stepped_over(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1)
    await live.publish(OrderPaid(), "o1", 4)
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        async with live.verbs(s.Orders) as verbs:
            await verbs.accept_gap("order/o1", 2, 3, ACT)
        await live.settled(s.Orders)
        late = await live.publish(OrderNoted("found again"), "o1", 3, id="late")
        await live.settled(s.Orders)

    assert await live.rows("orders") == [("o1", "paid", 500, '["placed", "paid"]')]
    # Of another kind is what the search may have told of the gap before it was accepted.
    assert await inspection.rows(live, "incidents", "seq", "version", kind="late") == [(late, 3)]
    assert (await live.states(s.Orders))["late"] == "skipped"
    assert await live.unaccounted(s.Orders) == []


async def test_another_event_at_a_skipped_version_is_a_second_use_of_it(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("bad"), "o1", 1, id="bad")
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        async with live.verbs(s.Orders) as verbs:
            await verbs.skip("order/o1", ACT)
        await live.publish(OrderPlaced("ann", 500), "o1", 1, id="other")
        await live.settled(s.Orders)

    assert await inspection.rows(live, "incidents", "kind", "id") == [("version_reuse", "other")]
    assert await live.rows("orders") == []


async def test_small_batches_and_large_ones_end_alike(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    order = [7, 2, 9, 1, 4, 3, 8, 6, 5, 10]
    for version in order:
        event = OrderPlaced("ann", 1) if version == 1 else OrderNoted(str(version))
        await live.publish(event, "o1", version)

    await live.settle(s.Orders, limits=Limits(max_rows=2))

    assert (await live.rows("orders"))[0][3] == str(["placed", *map(str, range(2, 11))]).replace("'", '"')
    assert await live.head(s.Orders, "order/o1") == (10, "clear", 0)
