"""Retention takes from rebuilds nothing they need: what is kept for them, and what they make of what is gone."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.consumer_harness import PATIENCE, Rig
from tests.support.rebuilding import Yard
from tests.support.retention import DAY, age, forgets_after, purge, sent, went
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import Act
from projectionist.projections import definition
from projectionist.runner.admin.reset import Resetting
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history import applied_filter
from projectionist.runner.history.progress import Logged
from projectionist.runner.verify.replay import Range, Replayer
from projectionist.runner.verify.verify import Verified

pytestmark = pytest.mark.asyncio

MONTH = msgspec.structs.replace(PATIENCE, retention_s=30 * DAY)


async def filled(rig: Rig) -> None:
    for n in range(4):
        await rig.publish(OrderPlaced("ann", n), f"o{n}", 1)
        await rig.publish(OrderPaid(), f"o{n}", 2, id=f"paid-{n}")
    await rig.publish(OrderPaid(), "o1", 2, id="paid-1")  # comes twice


async def forgotten(rig: Rig, *classes: type) -> int:
    """Everything is settled and sent, a month passes, and the inbox forgets; how many rows went."""
    await rig.settle(*classes)
    await sent(rig)
    await age(rig, 31)
    return went(await purge(rig, *classes, policy=MONTH)).get("inbox", 0)


async def test_rebuild_verify_and_recompute_need_no_inbox_where_the_order_is_contiguous(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    every = (s.Orders, s.Spend, s.Journal)
    await rig.migrate(*every)
    await filled(rig)
    await rig.publish(OrderNoted("a note"), "o1", 3)
    assert await forgotten(rig, *every) == 27
    await rig.publish(OrderPlaced("eve", 5), "o9", 1)
    await rig.publish(OrderNoted("another"), "o1", 4)
    await rig.settle(*every)
    tables = ("orders", "spend", "journal")
    before = [await rig.rows(table) for table in tables]

    for cls in every:
        await yard.rebuild(cls)

    assert [await rig.rows(table) for table in tables] == before
    for cls in (s.Orders, s.Spend):
        for sample in (None, 10):
            verified = await verify(rig, cls, sample)
            assert (verified.drifted, verified.unsure) == (0, 0)
    await rig.pool.execute("update projectionist.spend__g2 set cents = 0 where customer = 'ann'")
    assert (await verify(rig, s.Spend, None)).drifted == 1
    assert (await verify(rig, s.Spend, 10)).drifted == 1


@pytest.mark.parametrize("sequence", ["monotonic", "unordered"])
async def test_elsewhere_the_inbox_keeps_what_a_rebuild_asks_for(yard: Yard, sequence: str) -> None:
    rig = yard.rig
    s = shop(rig.stream, sequence=sequence)
    await rig.migrate(s.Spend)
    await filled(rig)
    assert await forgotten(rig, s.Spend) == 0, "the stream holds everything"
    await forgets_after(rig, 60)
    assert await forgotten(rig, s.Spend) == 0, "it may hold messages of two months, and rows are kept for one"
    rows = await rig.rows("spend")
    await yard.rebuild(s.Spend)
    assert await rig.rows("spend") == rows


async def test_an_exact_look_at_what_the_inbox_forgot_minds_decisions_reuse_and_repeats(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    s.trouble.poison.add("bad")
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1, id="one")
    await rig.publish(OrderNoted("bad"), "o1", 2)
    await rig.publish(OrderNoted("thief"), "o1", 1, id="thief")
    await rig.publish(OrderNoted("third"), "o1", 3, id="third")
    await rig.settle(s.Orders)
    async with rig.verbs(s.Orders) as verbs:
        await verbs.skip("order/o1", Act("ann", "nonsense"))
    await rig.settle(s.Orders)
    await rig.publish(OrderNoted("third"), "o1", 3, id="third")
    await rig.settle(s.Orders)
    assert await forgotten(rig, s.Orders) == 2
    await rig.publish(OrderNoted("third"), "o1", 3, id="third")
    await rig.publish(OrderNoted("late thief"), "o1", 3, id="unverifiable")
    await rig.settle(s.Orders)
    assert await rig.rows("orders") == [("o1", "placed", 1, '["placed", "third"]')]
    for _ in range(2):
        for sample in (None, 10):
            verified = await verify(rig, s.Orders, sample)
            assert (verified.drifted, verified.rows) == (0, 1)
        await forgotten(rig, s.Orders)
    await yard.rebuild(s.Orders)
    assert await rig.rows("orders") == [("o1", "placed", 1, '["placed", "third"]')]


async def verify(rig: Rig, cls: type, sample: int | None) -> Verified:
    return await Yard(rig).verify(cls, sample)


async def test_the_rows_that_the_way_back_needs_stay_as_long_as_it_is_kept(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Spend)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.settle(s.Spend)
    await age(rig, 31)
    await yard.rebuild(s.Spend)
    await rig.publish(OrderPlaced("ann", 2), "o2", 1)
    await rig.settle(s.Spend)
    await age(rig, 31)

    assert went(await purge(rig, s.Spend)) == {"inbox": 1}, "the one from before the swap"
    await yard.rebuild(s.Spend, back_to=1)
    assert await rig.rows("spend") == [("ann", 2, 3)]


async def test_a_build_in_progress_holds_the_purge(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Spend)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.settle(s.Spend)
    await age(rig, 31)
    async with yard.reading(s.Spend) as building:
        report = await purge(rig, s.Spend)
        assert went(report) == {}
        assert "a rebuild is open" in report.held[0].why
    await building
    assert went(await purge(rig, s.Spend)) == {"inbox": 1}


async def test_a_stream_that_lost_its_beginning_is_noticed_after_the_inbox_forgot_it_too(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Spend)
    for n in range(4):
        await rig.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    await rig.settle(s.Spend)
    await age(rig, 31)
    assert went(await purge(rig, s.Spend)) == {"inbox": 4}
    await rig.nats.jetstream().purge_stream(rig.stream.name, seq=3)
    await rig.publish(OrderPlaced("ann", 1), "o9", 1)
    await rig.settle(s.Spend)
    with pytest.raises(RebuildError, match="would lose rows"):
        await yard.rebuild(s.Spend)


async def test_without_order_nothing_is_replayed_that_the_inbox_has_forgotten(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream, sequence="unordered")
    await forgets_after(rig, 20)
    await rig.migrate(s.Spend)
    for n in range(3):
        await rig.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    await rig.settle(s.Spend)
    await age(rig, 31)
    await purge(rig, s.Spend, policy=MONTH)
    async with rig.pool.acquire() as connection:
        replayer = Replayer(
            *(
                Queries(connection, "projectionist"),
                definition(s.Spend),
                rig.settings,
                rig.nats,
                Logged("Spend"),
            )
        )
        with pytest.raises(RebuildError, match="up to sequence 3") as refused:
            await replayer.run(Range(2, 9), Act("ann", "again"))
        assert "Begin at 4" in str(refused.value)
    assert await rig.rows("spend") == [("ann", 3, 3)]


async def test_a_consumer_that_was_reset_has_forgotten_nothing(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Spend)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    assert await forgotten(rig, s.Spend) == 1
    async with rig.pool.acquire() as connection:
        await connection.execute("update projectionist.consumers set paused = true")
        await Resetting(connection, rig.nats, "projectionist").reset("Spend", Act("ann", "anew"))
        await connection.execute("update projectionist.consumers set paused = false")
    assert await rig.fetch("select purged, purged_from from {s}.floors") == [(0, None)]
    await rig.settle(s.Spend)
    assert await rig.rows("spend") == [("ann", 1, 1)]


@pytest.mark.parametrize("decided", [False, True])
async def test_more_out_of_order_than_the_bulk_holds_is_refused_where_the_inbox_forgot_it(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, decided: bool
) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    for version in (4, 3, 2):
        await rig.publish(OrderNoted(f"n{version}"), "o1", version)
    await rig.publish(OrderPlaced("bob", 2), "o2", 1)
    if decided:
        await rig.publish(OrderNoted("n7"), "o1", 7)
    await rig.settle(s.Orders)
    if decided:
        async with rig.verbs(s.Orders) as verbs:
            await verbs.accept_gap("order/o1", 5, 6, Act("ann", "never published"))
        await rig.settle(s.Orders)
    assert await forgotten(rig, s.Orders) == (6 if decided else 5)
    before = await rig.rows("orders")
    assert [len(msgspec.json.decode(row[3])) for row in before] == [5 if decided else 4, 1]

    with monkeypatch.context() as few:
        few.setattr(applied_filter, "MOST_HELD", 1)
        with pytest.raises(RebuildError, match="order/o1 from v3"):
            await yard.rebuild(s.Orders)
    await rig.publish(OrderPaid(), "o2", 2)
    await rig.settle(s.Orders)
    assert (await rig.rows("orders"))[0] == before[0]
    monkeypatch.setattr(applied_filter, "MOST_HELD", 2)
    await yard.give_up(s.Orders)
    await yard.rebuild(s.Orders)
    assert (await rig.rows("orders"))[0] == before[0]


async def test_what_lies_below_a_baseline_was_never_applied_and_is_not_after_the_inbox_forgot_it(
    yard: Yard,
) -> None:
    rig = yard.rig
    s = shop(rig.stream, baseline=3)
    await rig.migrate(s.Orders)
    for version in range(1, 6):
        await rig.publish(OrderNoted(f"v{version}"), "o1", version)
    assert await forgotten(rig, s.Orders) == 5
    rows = [("o1", "new", 0, '["v3", "v4", "v5"]')]
    assert await rig.rows("orders") == rows
    for sample in (None, 5):
        assert (await verify(rig, s.Orders, sample)).drifted == 0

    assert (await yard.mend(s.Orders, "o1")).changed is None
    await yard.rebuild(s.Orders)

    assert await rig.rows("orders") == rows
