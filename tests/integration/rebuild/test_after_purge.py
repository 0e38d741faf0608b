"""Retention takes from rebuilds nothing they need: what is kept for them, and what they make of what is gone."""

from __future__ import annotations

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import PATIENCE, ConsumerHarness
from tests.support.rebuilding import RebuildHarness
from tests.support.retention import DAY, age, forgets_after, purge, sent, went
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import Act
from projectionist.projections import definition
from projectionist.runner.admin.reset import Resetting
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history import applied_filter
from projectionist.runner.history.progress import Logged
from projectionist.runner.jetstream.stream_range import Range
from projectionist.runner.verify.replay import Replayer
from projectionist.runner.verify.verify import Verified

pytestmark = pytest.mark.asyncio

MONTH = msgspec.structs.replace(PATIENCE, retention_s=30 * DAY)


async def filled(harness: ConsumerHarness) -> None:
    for n in range(4):
        await harness.publish(OrderPlaced("ann", n), f"o{n}", 1)
        await harness.publish(OrderPaid(), f"o{n}", 2, id=f"paid-{n}")
    await harness.publish(OrderPaid(), "o1", 2, id="paid-1")  # comes twice


async def forgotten(harness: ConsumerHarness, *classes: type) -> int:
    """Everything is settled and sent, a month passes, and the inbox forgets; how many rows went."""
    await harness.settle(*classes)
    await sent(harness)
    await age(harness, 31)
    return went(await purge(harness, *classes, policy=MONTH)).get("inbox", 0)


async def test_rebuild_verify_and_recompute_need_no_inbox_where_the_order_is_contiguous(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    every = (s.Orders, s.Spend, s.Journal)
    await harness.migrate(*every)
    await filled(harness)
    await harness.publish(OrderNoted("a note"), "o1", 3)
    assert await forgotten(harness, *every) == 27
    await harness.publish(OrderPlaced("eve", 5), "o9", 1)
    await harness.publish(OrderNoted("another"), "o1", 4)
    await harness.settle(*every)
    tables = ("orders", "spend", "journal")
    before = [await harness.rows(table) for table in tables]

    for cls in every:
        await rebuilds.rebuild(cls)

    assert [await harness.rows(table) for table in tables] == before
    for cls in (s.Orders, s.Spend):
        for sample in (None, 10):
            verified = await verify(harness, cls, sample)
            assert (verified.drifted, verified.unsure) == (0, 0)
    await harness.pool.execute("update projectionist.spend__g2 set cents = 0 where customer = 'ann'")
    assert (await verify(harness, s.Spend, None)).drifted == 1
    assert (await verify(harness, s.Spend, 10)).drifted == 1


@pytest.mark.parametrize("sequence", ["monotonic", "unordered"])
async def test_elsewhere_the_inbox_keeps_what_a_rebuild_asks_for(
    rebuilds: RebuildHarness, sequence: str
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, sequence=sequence)
    await harness.migrate(s.Spend)
    await filled(harness)
    assert await forgotten(harness, s.Spend) == 0, "the stream holds everything"
    await forgets_after(harness, 60)
    assert await forgotten(harness, s.Spend) == 0, (
        "it may hold messages of two months, and rows are kept for one"
    )
    rows = await harness.rows("spend")
    await rebuilds.rebuild(s.Spend)
    assert await harness.rows("spend") == rows


async def test_an_exact_look_at_what_the_inbox_forgot_minds_decisions_reuse_and_repeats(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1, id="one")
    await harness.publish(OrderNoted("bad"), "o1", 2)
    await harness.publish(OrderNoted("thief"), "o1", 1, id="thief")
    await harness.publish(OrderNoted("third"), "o1", 3, id="third")
    await harness.settle(s.Orders)
    async with harness.verbs(s.Orders) as verbs:
        await verbs.skip("order/o1", Act("ann", "nonsense"))
    await harness.settle(s.Orders)
    await harness.publish(OrderNoted("third"), "o1", 3, id="third")
    await harness.settle(s.Orders)
    assert await forgotten(harness, s.Orders) == 2
    await harness.publish(OrderNoted("third"), "o1", 3, id="third")
    await harness.publish(OrderNoted("late thief"), "o1", 3, id="unverifiable")
    await harness.settle(s.Orders)
    assert await harness.rows("orders") == [("o1", "placed", 1, '["placed", "third"]')]
    for _ in range(2):
        for sample in (None, 10):
            verified = await verify(harness, s.Orders, sample)
            assert (verified.drifted, verified.rows) == (0, 1)
        await forgotten(harness, s.Orders)
    await rebuilds.rebuild(s.Orders)
    assert await harness.rows("orders") == [("o1", "placed", 1, '["placed", "third"]')]


async def verify(harness: ConsumerHarness, cls: type, sample: int | None) -> Verified:
    return await RebuildHarness(harness).verify(cls, sample)


async def test_the_rows_that_the_way_back_needs_stay_as_long_as_it_is_kept(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Spend)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Spend)
    await age(harness, 31)
    await rebuilds.rebuild(s.Spend)
    await harness.publish(OrderPlaced("ann", 2), "o2", 1)
    await harness.settle(s.Spend)
    await age(harness, 31)

    assert went(await purge(harness, s.Spend)) == {"inbox": 1}, "the one from before the swap"
    await rebuilds.rebuild(s.Spend, back_to=1)
    assert await harness.rows("spend") == [("ann", 2, 3)]


async def test_a_build_in_progress_holds_the_purge(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Spend)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Spend)
    await age(harness, 31)
    async with rebuilds.reading(s.Spend) as building:
        report = await purge(harness, s.Spend)
        assert went(report) == {}
        assert "a rebuild is open" in report.held[0].why
    await building
    assert went(await purge(harness, s.Spend)) == {"inbox": 1}


async def test_a_stream_that_lost_its_beginning_is_noticed_after_the_inbox_forgot_it_too(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Spend)
    for n in range(4):
        await harness.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    await harness.settle(s.Spend)
    await age(harness, 31)
    assert went(await purge(harness, s.Spend)) == {"inbox": 4}
    await harness.nats.jetstream().purge_stream(harness.stream.name, seq=3)
    await harness.publish(OrderPlaced("ann", 1), "o9", 1)
    await harness.settle(s.Spend)
    with pytest.raises(RebuildError, match="would lose rows"):
        await rebuilds.rebuild(s.Spend)


async def test_without_order_nothing_is_replayed_that_the_inbox_has_forgotten(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, sequence="unordered")
    await forgets_after(harness, 20)
    await harness.migrate(s.Spend)
    for n in range(3):
        await harness.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    await harness.settle(s.Spend)
    await age(harness, 31)
    await purge(harness, s.Spend, policy=MONTH)
    async with harness.pool.acquire() as connection:
        replayer = Replayer(
            *(
                Queries(connection, "projectionist"),
                definition(s.Spend),
                harness.settings,
                harness.nats,
                Logged("Spend"),
            )
        )
        with pytest.raises(RebuildError, match="up to sequence 3") as refused:
            await replayer.run(Range(2, 9), Act("ann", "again"))
        assert "Begin at 4" in str(refused.value)
    assert await harness.rows("spend") == [("ann", 3, 3)]


async def test_a_consumer_that_was_reset_has_forgotten_nothing(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Spend)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    assert await forgotten(harness, s.Spend) == 1
    async with harness.pool.acquire() as connection:
        await connection.execute("update projectionist.consumers set paused = true")
        await Resetting(connection, harness.nats, "projectionist").reset("Spend", Act("ann", "anew"))
        await connection.execute("update projectionist.consumers set paused = false")
    assert await inspection.rows(harness, "floors", "purged", "purged_from") == [(0, None)]
    await harness.settle(s.Spend)
    assert await harness.rows("spend") == [("ann", 1, 1)]


@pytest.mark.parametrize("decided", [False, True])
async def test_more_out_of_order_than_the_bulk_holds_is_refused_where_the_inbox_forgot_it(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, decided: bool
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    for version in (4, 3, 2):
        await harness.publish(OrderNoted(f"n{version}"), "o1", version)
    await harness.publish(OrderPlaced("bob", 2), "o2", 1)
    if decided:
        await harness.publish(OrderNoted("n7"), "o1", 7)
    await harness.settle(s.Orders)
    if decided:
        async with harness.verbs(s.Orders) as verbs:
            await verbs.accept_gap("order/o1", 5, 6, Act("ann", "never published"))
        await harness.settle(s.Orders)
    assert await forgotten(harness, s.Orders) == (6 if decided else 5)
    before = await harness.rows("orders")
    assert [len(msgspec.json.decode(row[3])) for row in before] == [5 if decided else 4, 1]

    with monkeypatch.context() as few:
        few.setattr(applied_filter, "MOST_HELD", 1)
        with pytest.raises(RebuildError, match="order/o1 from v3"):
            await rebuilds.rebuild(s.Orders)
    await harness.publish(OrderPaid(), "o2", 2)
    await harness.settle(s.Orders)
    assert (await harness.rows("orders"))[0] == before[0]
    monkeypatch.setattr(applied_filter, "MOST_HELD", 2)
    await rebuilds.give_up(s.Orders)
    await rebuilds.rebuild(s.Orders)
    assert (await harness.rows("orders"))[0] == before[0]


async def test_events_below_a_baseline_stay_unapplied_after_the_inbox_forgot_them(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, baseline=3)
    await harness.migrate(s.Orders)
    for version in range(1, 6):
        await harness.publish(OrderNoted(f"v{version}"), "o1", version)
    assert await forgotten(harness, s.Orders) == 5
    rows = [("o1", "new", 0, '["v3", "v4", "v5"]')]
    assert await harness.rows("orders") == rows
    for sample in (None, 5):
        assert (await verify(harness, s.Orders, sample)).drifted == 0

    assert (await rebuilds.mend(s.Orders, "o1")).changed is None
    await rebuilds.rebuild(s.Orders)

    assert await harness.rows("orders") == rows
