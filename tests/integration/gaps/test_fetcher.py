"""Missing versions are read from the stream before anybody is called; where they cannot be had, it is said why."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import tuned
from tests.support.peers import peer_takes
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.core.operator import Act
from projectionist.core.settings.settings import Policy
from projectionist.projections import Projection, on

pytestmark = pytest.mark.asyncio

ACT = Act("ann", "looked at it")

LONG = {"ack_wait_s": 5 * HANG_S}


async def take_away(live: ConsumerHarness, *sequences: int) -> None:
    """Have a peer hold these messages for longer than the test lasts: it took them off the durable and does nothing."""
    durable = await inspection.durable_name(live)
    for message in await peer_takes(live.nats.jetstream(), live.stream.name, durable, max(sequences)):
        if message.metadata.sequence.stream not in sequences:
            await message.nak()


async def incident(live: ConsumerHarness) -> tuple[str, str]:
    """Kind and text of the one incident."""
    [(kind, detail)] = await inspection.rows(live, "incidents", "kind", "detail")
    return kind, detail


async def waits(live: ConsumerHarness, cls: type, aggregate: str = "order/o1") -> str:
    """Wait for a finding; what it is."""

    async def found() -> str:
        rows = await inspection.rows(live, "positions", "finding", head="waiting", aggregate=aggregate)
        return str(rows[0][0]) if rows else ""

    return await eventually(found)


async def test_versions_that_a_dead_peer_holds_are_fetched_without_waiting_for_the_broker(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    tuned(live, policy=LONG)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)  # makes the durable
    for version in range(1, 6):
        await live.publish(OrderNoted(f"n{version}"), "o1", version)
    await take_away(live, 2, 3)

    async with live.running(s.Orders):
        await eventually(lambda: reached(live, s.Orders, "order/o1", (5, "clear", 0)))

    assert await live.rows("orders") == [("o1", "new", 0, '["n1", "n2", "n3", "n4", "n5"]')]
    assert await live.unaccounted(s.Orders) == []
    assert await inspection.count_incidents(live) == 0


async def reached(live: ConsumerHarness, cls: type, aggregate: str, where: tuple[int, str, int]) -> bool:
    """Whether the aggregate stands there."""
    assert await live.head(cls, aggregate) == where
    return True


async def test_a_version_that_was_never_published_is_lost_and_comes_in_when_it_is(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("one"), "o1", 1)
    behind = await live.publish(OrderNoted("three"), "o1", 3)
    await live.publish(OrderNoted("fine"), "o2", 1)

    async with live.running(s.Orders):
        assert await waits(live, s.Orders) == "lost"
        kind, detail = await incident(live)
        assert kind == "lost"
        assert detail.startswith(f"order/o1 lacks version 2: not in stream {live.stream.name}")
        assert "accept-gap --aggregate order/o1 --versions 2..2" in detail
        assert (await inspection.rows(live, "incidents", "seq", "version"))[0] == (behind, 3)

        await live.publish(OrderNoted("two"), "o1", 2)
        await eventually(lambda: reached(live, s.Orders, "order/o1", (3, "clear", 0)))

    assert ("o1", "new", 0, '["one", "two", "three"]') in await live.rows("orders")
    assert await live.unaccounted(s.Orders) == []


async def test_what_may_still_be_delivered_is_in_flight_and_nobody_is_called(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    tuned(live, policy=LONG)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)
    held = await live.publish(OrderPlaced("bob", 1), "other", 1)
    await take_away(live, held)  # the floor cannot pass it
    await live.publish(OrderNoted("one"), "o1", 1)
    await live.publish(OrderNoted("three"), "o1", 3)

    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("gap.looked", 4)
            assert await live.head(s.Orders, "order/o1") == (1, "gap", 1)

    assert await inspection.count_incidents(live) == 0


async def test_purged_versions_are_told_apart_from_lost_ones(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for version in range(1, 5):
        await live.publish(OrderNoted(f"n{version}"), "o1", version)
    await live.nats.jetstream().purge_stream(live.stream.name, seq=3)

    async with live.running(s.Orders):
        assert await waits(live, s.Orders) == "purged"
        kind, detail = await incident(live)
        assert kind == "purged"
        assert detail.startswith("order/o1 lacks versions 1 to 2: purged, it seems: ")
        assert "begins at sequence 3" in detail

        async with live.verbs(s.Orders) as verbs:
            await verbs.accept_gap("order/o1", 1, 2, ACT)
        await eventually(lambda: reached(live, s.Orders, "order/o1", (4, "clear", 0)))


async def test_a_consumer_whose_subjects_cut_an_aggregate_is_told_where_the_rest_is(
    live: ConsumerHarness,
) -> None:
    class Cut(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        table="cut",
        key="order_id",
    ):
        """Reads one of two kinds of subjects."""

        order_id: str
        notes: int = 0

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.notes += 1

    live.tampered = True  # some events are nobody's
    await live.migrate(Cut)
    elsewhere = await live.publish(OrderNoted("one"), "o1", 1, place="archive")
    await live.publish(OrderNoted("two"), "o1", 2)

    async with live.running(Cut):
        assert await waits(live, Cut) == "filtered"
        _, detail = await incident(live)
        assert f"version 1 is at sequence {elsewhere} on {live.stream.subject('archive', 'o1')}" in detail


async def test_without_the_aggregate_in_the_subjects_a_gap_is_filtered_and_start_says_so(
    live: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    class Blind(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "*"),
        table="blind",
        key="order_id",
    ):
        """Its subjects do not say where the aggregate stands."""

        order_id: str
        notes: int = 0

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.notes += 1

    await live.migrate(Blind)
    await live.publish(OrderNoted("two"), "o1", 2)

    async with live.running(Blind):
        assert await waits(live, Blind) == "filtered"
        _, detail = await incident(live)

    assert "write {aggregate} in the aggregate's place in subjects=" in detail
    assert "missing versions cannot be fetched" in caplog.text


async def test_a_version_beyond_all_reason_is_implausible_and_can_be_discarded(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("one"), "o1", 1)
    await live.publish(OrderNoted("wild"), "o1", 2**62, id="wild")

    async with live.running(s.Orders):
        assert await waits(live, s.Orders) == "implausible"
        _, detail = await incident(live)
        assert f"Version {2**62} at sequence 2 is not to be believed" in detail
        await live.publish(OrderNoted("two"), "o1", 2)
        await eventually(lambda: reached(live, s.Orders, "order/o1", (2, "waiting", 1)))

        async with live.verbs(s.Orders) as verbs:
            await verbs.discard(("shop", "wild"), ACT)
        assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)
        await live.publish(OrderNoted("three"), "o1", 3)
        await live.settled(s.Orders)

    assert await live.rows("orders") == [("o1", "new", 0, '["one", "two", "three"]')]
    assert await live.states(s.Orders) == {
        "e1": "applied",
        "wild": "discarded",
        "e2": "applied",
        "e3": "applied",
    }


async def test_what_is_in_quarantine_from_the_same_subject_is_listed_in_the_finding(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    bad = await live.publish_raw(b"{}", {"ce-id": "x", "ce-source": "shop"}, "o1")
    await live.publish(OrderNoted("two"), "o1", 2)

    async with live.running(s.Orders):
        assert await waits(live, s.Orders) == "lost"
        _, detail = await incident(live)

    assert f"In quarantine from the same subject, look there first: sequence {bad}: type" in detail


async def test_a_retry_of_a_lost_gap_looks_again_at_once(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("two"), "o1", 2)

    async with live.running(s.Orders):
        await waits(live, s.Orders)
        with listening() as heard:
            async with live.verbs(s.Orders) as verbs:
                await verbs.retry("order/o1", ACT)
            await heard.wait("gap.concluded")
        assert await waits(live, s.Orders) == "lost"

    assert await inspection.count_incidents(live) == 1


async def test_an_unfilled_gap_is_looked_at_after_its_grace_and_then_ever_more_rarely(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    looks = []
    async with batch_drivers(live, s.Orders, policy=Policy(gap_fetch_delay_ms=50)) as (driver,):
        await driver.settle(driver.read(OrderNoted("x"), "o1", 5))
        store, _ = await driver.session.ready()
        for age in (0, 10, 9_000):
            await live.pool.execute(
                "update projectionist.positions set due = clock_timestamp();"
                f" update projectionist.parked set parked_at = clock_timestamp() - interval '{age} s'"
            )
            assert await driver.due(10) == ([], []), "its next step is to be looked for, not to be applied"
            assert [row[0] for row in await store.rows("lock_due_gaps", 10)] == ["order/o1"]
            rows = await store.rows("postpone_due_gaps", ["order/o1"], driver.consumer.gap_fetch_delay_s)
            assert [row[0] for row in rows] == ["order/o1"]
            looks.append(
                await live.value("select extract(epoch from due - clock_timestamp()) from {s}.positions")
            )

        await driver.settle(*(driver.read(OrderNoted(str(n)), "o1", n) for n in range(1, 5)))
        assert await live.head(s.Orders, "order/o1") == (5, "clear", 0)

    assert [round(after) for after in looks] == [0, 10, 30]


async def test_a_due_gap_that_misses_no_version_drains(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    live.tampered = True  # the versions before it are nobody's
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        await driver.settle(driver.read(OrderNoted("x"), "o1", 5))
        await live.pool.execute("update projectionist.positions set version = 4, due = clock_timestamp()")
        store, _ = await driver.session.ready()
        assert await store.rows("postpone_due_gaps", ["order/o1"], driver.consumer.gap_fetch_delay_s) == []
        assert await live.head(s.Orders, "order/o1") == (4, "draining", 1)
        await driver.settle_due()

    assert await live.head(s.Orders, "order/o1") == (5, "clear", 0)


async def test_a_due_gap_is_looked_up_without_a_batch_of_its_own(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)
    held = await live.publish(OrderPlaced("bob", 1), "other", 1)
    await take_away(live, held)  # the floor cannot pass it
    await live.publish(OrderNoted("three"), "o1", 3)

    with listening() as heard:
        async with live.running(s.Orders, policy=Policy(gap_fetch_delay_ms=20)):
            await heard.wait("gap.looked", 6)

    assert heard.counts["batch.entered"] == 1


async def test_a_position_held_by_somebody_delays_the_search_for_no_other_gap(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    tuned(live, postgres={"lock_s": 5 * HANG_S, "statement_s": 5 * HANG_S})
    await live.migrate(s.Orders)
    for order in ("o1", "o2", "o3"):
        await live.publish(OrderNoted("three"), order, 3)
    await live.settle(s.Orders, policy=Policy(gap_fetch_delay_ms=3_600_000, late_s=0))
    async with live.connected() as locker, locker.transaction():
        await live.pool.execute("update projectionist.positions set due = clock_timestamp()")
        await locker.execute("select from projectionist.positions where aggregate = 'order/o3' for update")
        async with live.running(s.Orders):
            assert await waits(live, s.Orders, "order/o1") == "lost"
            assert await waits(live, s.Orders, "order/o2") == "lost"
            assert await live.head(s.Orders, "order/o3") == (0, "gap", 1)
