"""verify names the rows that are not what their events make; recompute mends one of them; neither makes effects."""

from __future__ import annotations

import json
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.process import run_projectionist
from tests.support.rebuilding import ACT, Yard, shop_app
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.projections import Event, Projection, definition, on
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history.handler_failures import HandlersFailed
from projectionist.runner.jetstream import stream_reader
from projectionist.runner.verify import refold_rows
from projectionist.runner.verify import verify as verifying
from projectionist.runner.verify.recompute import Recomputed
from projectionist.runner.verify.verify import Verified, begun, live_consumer

pytestmark = pytest.mark.asyncio


async def verify(yard: Yard, cls: type, sample: int | None = None) -> Verified:
    return await yard.verify(cls, sample)


async def mend(yard: Yard, cls: type, key: str) -> Recomputed:
    return await yard.mend(cls, key)


async def some(yard: Yard, s: Any) -> None:
    await yard.rig.migrate(s.Orders, s.Spend)
    for n in range(12):
        await yard.rig.publish(OrderPlaced("ann" if n % 2 else "bob", 10), f"o{n}", 1)
        await yard.rig.publish(OrderPaid(1), f"o{n}", 2)
        await yard.rig.publish(OrderNoted("x"), f"o{n}", 3)


async def test_a_right_read_model_verifies_by_sample_and_as_a_whole(yard: Yard) -> None:
    s = shop(yard.rig.stream)
    await some(yard, s)
    await yard.rig.settle(s.Orders, s.Spend)
    effects = await yard.effects()
    for cls, rows in ((s.Orders, 12), (s.Spend, 2)):
        assert await verify(yard, cls) == Verified(definition(cls).name, 1, rows, 0, [], other_code=False)
        assert await verify(yard, cls, 5) == Verified(
            definition(cls).name, 1, min(rows, 5), 0, [], other_code=False
        )
    assert await yard.effects() == effects


@pytest.mark.parametrize("sample", [None, 100])
async def test_drift_is_named_by_row_column_and_the_version_from_which_on_it_is_there(
    yard: Yard, sample: int | None
) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await some(yard, s)
    await rig.settle(s.Orders, s.Spend)
    await rig.pool.execute("update projectionist.orders__g1 set cents = 99 where order_id = 'o1'")
    await rig.pool.execute(
        """update projectionist.orders__g1 set history = '["placed","paid"]' where order_id = 'o2'"""
    )
    await rig.pool.execute("update projectionist.spend__g1 set orders = orders + 1 where customer = 'ann'")
    await rig.pool.execute("insert into projectionist.orders__g1 (order_id) values ('ghost')")

    found = {d.key: d for d in (await verify(yard, s.Orders, sample)).drifts}
    (spent,) = (await verify(yard, s.Spend, sample)).drifts

    assert found.keys() == {"o1", "o2", "ghost"}
    assert (found["o1"].live, found["o1"].folded, found["o1"].since) == (
        *({"cents": 99}, {"cents": 10}),
        "order/o1 v1",
    )
    assert found["o2"].since == "order/o2 v3"
    assert found["ghost"].folded is None
    assert (spent.live, spent.folded) == ({"orders": 7}, {"orders": 6})


async def test_a_row_that_lacks_is_found_when_all_are_verified(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await some(yard, s)
    await rig.settle(s.Orders)
    await rig.pool.execute("delete from projectionist.orders__g1 where order_id = 'o3'")
    (lost,) = (await verify(yard, s.Orders)).drifts
    assert (lost.key, lost.live, lost.since) == ("o3", None, "order/o3 v1")


async def test_decisions_are_repeated_and_what_is_parked_is_not_missed(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    s.trouble.poison.add("bad")
    await some(yard, s)
    await rig.publish(OrderNoted("bad"), "o1", 4)
    await rig.publish(OrderNoted("after"), "o1", 5)
    await rig.publish(OrderNoted("bad"), "o2", 4)
    async with rig.running(s.Orders):
        await yard.settled(s.Orders)
        async with rig.verbs(s.Orders) as verbs:
            await verbs.skip("order/o1", ACT)
        await yard.settled(s.Orders)
    s.trouble.poison.clear()
    assert (await verify(yard, s.Orders)).drifts == []
    assert (await verify(yard, s.Orders, 100)).drifts == []


async def test_verify_while_live_moves_finds_no_drift(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await some(yard, s)
    async with rig.running(s.Orders, s.Spend, processes=2):
        for version in range(4, 10):
            for n in range(12):
                await rig.publish(OrderNoted("x"), f"o{n}", version)
                await rig.publish(OrderPlaced("ann", 1), f"n{version}-{n}", 1)
            assert (await verify(yard, s.Orders)).drifts == []
            assert (await verify(yard, s.Spend)).drifts == []


async def test_rows_that_do_not_fit_memory_are_verified_too(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "ROWS_AT_ONCE", 5)
    rig = yard.rig
    s = shop(rig.stream)
    await some(yard, s)
    await rig.settle(s.Orders)
    await rig.pool.execute("update projectionist.orders__g1 set cents = 99 where order_id = 'o1'")
    await rig.pool.execute("insert into projectionist.orders__g1 (order_id) values ('ghost')")
    found = await verify(yard, s.Orders)
    assert sorted(d.key for d in found.drifts) == ["ghost", "o1"]
    assert found.rows == 13


@pytest.mark.parametrize(("name", "key"), [("Orders", "o1"), ("Spend", "ann")])
async def test_recompute_mends_one_row_silently_and_says_what_was_wrong(
    yard: Yard, name: str, key: str
) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    cls, table = getattr(s, name), name.lower()
    await some(yard, s)
    await rig.settle(s.Orders, s.Spend)
    rows, effects = await rig.rows(table), await yard.effects()
    column = "order_id" if name == "Orders" else "customer"
    await rig.pool.execute(f"update projectionist.{table}__g1 set cents = 77 where {column} = $1", key)

    done = await mend(yard, cls, key)

    assert done.changed is not None
    assert done.changed.live == {"cents": 77}
    assert await rig.rows(table) == rows
    assert await yard.effects() == effects
    assert (await mend(yard, cls, key)).changed is None
    await rig.pool.execute(f"delete from projectionist.{table}__g1 where {column} = $1", key)
    await mend(yard, cls, key)
    assert await rig.rows(table) == rows
    assert await rig.fetch("select verb, who, reason from {s}.audit where verb = 'recompute' limit 1") == [
        ("recompute", "me", "to see")
    ]


async def test_recompute_removes_a_row_that_no_event_made(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await some(yard, s)
    await rig.settle(s.Orders)
    await rig.pool.execute("insert into projectionist.orders__g1 (order_id) values ('ghost')")
    done = await mend(yard, s.Orders, "ghost")
    assert done.events == 0
    assert await rig.fetch("select * from orders where order_id = 'ghost'") == []


async def test_a_sql_projection_has_no_single_rows_to_fold(yard: Yard) -> None:
    s = shop(yard.rig.stream)
    await yard.rig.migrate(s.Journal)
    with pytest.raises(RebuildError, match="SQL of its own"):
        await verify(yard, s.Journal)
    with pytest.raises(RebuildError, match="SQL of its own"):
        await mend(yard, s.Journal, "x")


async def test_the_commands_tell_people_and_programs(yard: Yard, tmp_path: Path) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await some(yard, s)
    await rig.settle(s.Orders)
    env = shop_app(tmp_path, rig)
    await rig.pool.execute("update projectionist.orders__g1 set cents = 99 where order_id = 'o1'")

    told = await run_projectionist("verify", "orders:app", "Orders", "--all", cwd=tmp_path, **env)
    assert told.code == 3, told.err
    assert "o1, from order/o1 v1 on: live cents=99, by its events cents=10" in told.out
    mended = await run_projectionist(
        *("recompute", "orders:app", "Orders", "o1", "--reason", "drift", "--json"), cwd=tmp_path, **env
    )
    assert mended.code == 0, mended.err
    assert json.loads(mended.out)["recomputed"]["changed"]["live"] == {"cents": 99}
    nothing = await run_projectionist(
        *("recompute", "orders:app", "Orders", "o99", "--reason", "drift"), cwd=tmp_path, **env
    )
    assert (nothing.code, nothing.out) == (1, "Orders o99: there is no such row, and no event makes one\n")
    told = await run_projectionist("verify", "orders:app", "Orders", "--json", cwd=tmp_path, **env)
    assert (told.code, json.loads(told.out)["verified"][0]["drifted"]) == (0, 0)


async def test_versions_that_came_in_no_order_are_folded_in_theirs(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders, s.Spend)
    for version, event in ((3, OrderNoted("third")), (2, OrderPaid(1)), (1, OrderPlaced("ann", 10))):
        await rig.publish(event, "o1", version)
        await rig.publish(OrderPlaced("ann", 1), f"p{version}", 1)
    await rig.settle(s.Orders, s.Spend)
    assert (await rig.rows("orders"))[0] == ("o1", "paid", 10, '["placed", "paid", "third"]')
    for cls in (s.Orders, s.Spend):
        assert (await verify(yard, cls, 10)).drifted == 0
    await rig.pool.execute("update projectionist.orders__g1 set history = '[]'")
    (drifted,) = [d for d in (await verify(yard, s.Orders)).drifts if d.key == "o1"]
    assert (drifted.since, drifted.folded) == ("order/o1 v1", {"history": '["placed", "paid", "third"]'})
    assert (await mend(yard, s.Orders, "o1")).events == 3


async def test_a_row_of_many_events_takes_no_memory_for_them(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of events: they are folded while they are read."""
    monkeypatch.setattr(refold_rows, "AT_ONCE", 100)
    monkeypatch.setattr(stream_reader, "BLOCK", 100)
    monkeypatch.setattr(stream_reader, "AT_ONCE", 200)
    rig, many = yard.rig, 6_000
    s = shop(rig.stream)
    await rig.migrate(s.Spend)
    await rig.publish_all([(OrderPlaced("ann", 1), f"o{n}", 1, f"e{n}") for n in range(many)])
    await rig.settle(s.Spend)
    tracemalloc.start()
    try:
        done = await mend(yard, s.Spend, "ann")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (done.changed, done.events) == (None, many)
    assert peak < 4_000_000, "kept whole they take 10 MB"


async def test_a_clash_that_is_decided_meanwhile_is_no_reason_to_read_again_and_an_edit_is(
    yard: Yard,
) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    s.trouble.poison.add("bad")
    await some(yard, s)
    await rig.publish(OrderNoted("thief"), "o1", 3, id="thief")
    await rig.publish(OrderNoted("bad"), "o2", 4, id="bad")
    await rig.settle(s.Orders)
    async with rig.pool.acquire() as connection:
        desk = Queries(connection, SCHEMA)
        consumer, _ = await live_consumer(desk, definition(s.Orders), rig.settings)
        looking = await begun(desk, consumer, rig.nats, ["o1"], [])
        decided = await desk.rows("select_decisions", consumer.number)
        assert [row["kind"] for row in decided] == ["winner"]
        assert not looking.outdated(decided)
        async with rig.verbs(s.Orders) as verbs:
            data = msgspec.json.encode(OrderNoted("good"))
            await verbs.edit(("shop", "bad"), data, b"0" * 16, ACT)
        assert looking.outdated(await desk.rows("select_decisions", consumer.number))


async def test_a_number_written_with_another_scale_is_the_same(yard: Yard) -> None:
    rig = yard.rig

    class Balance(
        Projection,
        stream=rig.stream.name,
        subjects=rig.stream.subject("order", "{aggregate}"),
        table="balance",
        key="id",
    ):
        """Money, by order."""

        id: str
        money: Decimal = Decimal(0)

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.money = Decimal(event.cents) / 10

    await rig.migrate(Balance)
    await rig.publish(OrderPlaced("ann", 15), "o1", 1)
    await rig.settle(Balance)
    await rig.pool.execute("update projectionist.balance__g1 set money = 1.500")
    for sample in (None, 5):
        assert (await verify(yard, Balance, sample)).drifted == 0
    assert (await mend(yard, Balance, "o1")).changed is None
    await rig.pool.execute("update projectionist.balance__g1 set money = 1.501")
    (drifted,) = (await verify(yard, Balance)).drifts
    assert (drifted.live, drifted.folded) == ({"money": "1.501"}, {"money": "1.5"})


@pytest.mark.parametrize("sample", [None, 5])
async def test_an_applied_event_that_this_code_cannot_read_is_named_and_no_row_judged_without_it(
    yard: Yard, sample: int | None
) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await some(yard, s)
    await rig.settle(s.Orders)

    class Placed(Event, type="order.placed"):
        """Asks for more than there was."""

        cents: int
        vat: int

    class Orders(
        Projection,
        stream=rig.stream.name,
        subjects=rig.stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
    ):
        """Other code than the one that runs."""

        order_id: str
        status: str = "new"
        cents: int = 0
        history: list[str] = []

        @on(Placed)
        def placed(self, event: Placed) -> None:
            self.cents = event.cents

    with pytest.raises(HandlersFailed, match="vat"):
        await verify(yard, Orders, sample)
