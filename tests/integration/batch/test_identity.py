"""One identity, one effect: whatever comes again, and from wherever."""

from __future__ import annotations

import asyncio

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness, headers_of
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.projections import definition

pytestmark = pytest.mark.asyncio


async def test_a_duplicate_after_success_is_acked_and_changes_nothing(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")
    await live.publish(OrderPaid(), "o1", 2, id="b")
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        again = await live.publish(OrderPaid(), "o1", 2, id="b")
        await live.settled(s.Orders)  # acked: nothing is pending after it

    assert await live.rows("orders") == [("o1", "paid", 500, '["placed", "paid"]')]
    assert await inspection.count_intents(live) == 1
    assert await inspection.duplicates(live) == [(again, "b")]
    assert await live.unaccounted(s.Orders) == []


async def test_an_identity_twice_in_one_batch_is_applied_once(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    first = await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")
    second = await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")

    await live.settle(s.Orders)

    assert await inspection.rows(live, "inbox", "seq", "id") == [(first, "a")]
    assert await inspection.duplicates(live) == [(second, "a")]


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "later"])
async def test_an_identity_with_other_content_is_quarantined_and_told_and_never_applied(
    live: ConsumerHarness, together: bool
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    first = await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")
    async with live.running(s.Orders):
        if not together:
            await live.settled(s.Orders)
        other = await live.publish(OrderPlaced("ann", 999_999), "o1", 1, id="a")
        await live.publish(OrderPlaced("bob", 7), "o2", 1, id="b")
        await live.settled(s.Orders)

    assert [row[2] for row in await live.rows("orders")] == [500, 7]
    assert await live.fetch("select seq, reason, convert_from(data, 'utf8') from {s}.quarantine") == [
        (other, "identity_reuse", '{"customer":"ann","cents":999999}')
    ]
    assert await inspection.rows(live, "incidents", "kind", "seq", "id", "closed") == [
        ("identity_reuse", other, "a", None)
    ]
    assert first < other
    assert await live.unaccounted(s.Orders) == []


async def test_content_is_type_schema_aggregate_version_and_bytes_but_no_other_header(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    event = OrderPlaced("ann", 500)
    await live.publish(event, "o1", 1, id="a", headers={"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"})
    await live.publish(event, "o1", 1, id="a", headers={"traceparent": f"00-{'3' * 32}-{'4' * 16}-01"})
    different = [
        await live.publish(event, "o1", 2, id="a"),
        await live.publish(event, "o2", 1, id="a"),
        await live.publish(event, "o1", 1, id="a", headers={"ce-type": "order.other"}),
        await live.publish(event, "o1", 1, id="a", headers={"ce-schemaversion": "2"}),
    ]

    await live.settle(s.Orders)

    assert await inspection.count_duplicates(live) == 1
    assert await inspection.rows(live, "incidents", "seq", order="seq") == [(seq,) for seq in different]
    assert await live.unaccounted(s.Orders) == []


async def test_the_same_id_from_another_source_is_another_event(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a", source="one")
    await live.publish(OrderPlaced("ann", 7), "o2", 1, id="a", source="two")

    await live.settle(s.Orders)

    assert len(await live.rows("orders")) == 2


async def test_the_same_aggregate_id_of_another_type_is_another_aggregate(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Spend)
    await live.publish(OrderPlaced("ann", 500), "7", 1, id="a")
    headers = headers_of(OrderPlaced("ann", 3), "7", 1, id="b", kind="cart")
    await live.publish_raw(b'{"customer":"ann","cents":3}', headers, "7")

    await live.settle(s.Spend)

    assert await live.rows("spend") == [("ann", 2, 503)]
    assert await inspection.rows(live, "positions", "aggregate", "version", order="aggregate") == [
        ("cart/7", 1),
        ("order/7", 1),
    ]


async def test_one_event_in_the_hands_of_ten_processes_has_one_effect(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, drivers=10) as drivers:
        for version, event in enumerate([OrderPlaced("ann", 500), OrderNoted("gift"), OrderPaid()], 1):
            seq = version * 10
            await asyncio.gather(
                *(driver.settle(driver.read(event, "o1", version, seq=seq)) for driver in drivers)
            )

    assert await live.rows("orders") == [("o1", "paid", 500, '["placed", "gift", "paid"]')]
    assert await inspection.count_intents(live) == 1
    assert await inspection.count_inbox(live, state="applied") == 3
    assert await inspection.count_outcomes(live, "redelivered") == 27


async def test_a_durable_made_anew_without_a_floor_redelivers_all_and_nothing_changes(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    for number in range(20):
        await live.publish(OrderPlaced("ann", number), f"o{number}", 1)
        await live.publish(OrderPaid(), f"o{number}", 2)
    await live.settle(s.Orders, s.Spend)
    tables = ("orders", "spend", "{s}.inbox", "{s}.positions", "{s}.intents")
    before = [await live.fetch(f"select * from {table} order by 1, 2, 3") for table in tables]

    durables = await inspection.rows(live, "consumers", "durable")
    for (durable,) in durables:
        await live.nats.jetstream().delete_consumer(live.stream.name, durable)
    await live.fetch("delete from {s}.floors")
    await live.settle(s.Orders, s.Spend)

    assert [await live.fetch(f"select * from {table} order by 1, 2, 3") for table in tables] == before
    assert await inspection.count_outcomes(live, "redelivered") == 80


async def test_a_durable_that_is_deleted_while_it_is_read_is_made_anew(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1)
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        durable = await inspection.durable_name(live)
        await live.nats.jetstream().delete_consumer(live.stream.name, durable)
        await live.publish(OrderPaid(), "o1", 2)
        await live.value_of("select status from orders", "paid")
        await live.settled(s.Orders)

    assert await inspection.count_intents(live) == 1


async def test_a_parked_event_republished_by_hand_under_its_identity_has_one_effect(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPaid(), "o1", 2, id="b")
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        by_hand = await live.publish(OrderPaid(), "o1", 2, id="b")
        await live.settled(s.Orders)
        position, _, parked = await live.head(s.Orders, "order/o1")  # still looked for, or found to be lost
        assert (position, parked) == (0, 1)
        await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")
        await live.settled(s.Orders)

    assert await live.rows("orders") == [("o1", "paid", 500, '["placed", "paid"]')]
    assert await inspection.count_intents(live) == 1
    assert await inspection.rows(live, "duplicates", "seq") == [(by_hand,)]
    assert await live.unaccounted(s.Orders) == []


async def test_an_unknown_commit_is_resolved_by_reading(live: ConsumerHarness) -> None:
    """The answer to COMMIT was lost: the batch is run again, and finds that it had been committed."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders, drivers=2) as (lost, again):
        event = OrderPlaced("ann", 500)
        await lost.settle(lost.read(event, "o1", 1, seq=1))
        (applied,) = await again.settle(again.read(event, "o1", 1, seq=1, delivered=2))

    assert applied.writes.counts == {("order.placed", "redelivered"): 1}
    assert await live.rows("orders") == [("o1", "placed", 500, '["placed"]')]


async def test_dedup_belongs_to_the_consumer_not_to_its_durable(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")

    await live.settle(s.Orders, s.Spend)
    await live.pool.execute("update projectionist.consumers set durable = durable || '_b'")
    await live.settle(s.Orders, s.Spend)

    assert await live.rows("spend") == [("ann", 1, 500)]
    assert await inspection.count_inbox(live) == 2
    assert definition(s.Orders).name != definition(s.Spend).name


async def test_events_without_an_id_are_counted_and_told_of_once(
    live: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for version in (1, 2, 3):
        made = headers_of(OrderNoted("x"), "o1", version, id="")
        del made["ce-id"]
        await live.publish_raw(b'{"text":"x"}', made, "o1")
    with caplog.at_level("WARNING", "projectionist.runner"):
        await live.settle(s.Orders, limits=Limits(max_rows=1))
    assert (
        await live.value("select sum(n)::int from {s}.counters where outcome = 'unnamed' and type <> ''") == 3
    )
    told = [text for text in caplog.messages if "no id of its producer" in text]
    assert len(told) == 1
    assert told[0].startswith("Orders: event order/o1:1 (sequence 1)")
