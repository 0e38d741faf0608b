"""verify names the rows that are not what their events make; recompute mends one of them; neither makes effects."""

from __future__ import annotations

import json
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.process import run_projectionist
from tests.support.rebuilding import ACT, RebuildHarness, shop_app
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


async def verify(rebuilds: RebuildHarness, cls: type, sample: int | None = None) -> Verified:
    return await rebuilds.verify(cls, sample)


async def mend(rebuilds: RebuildHarness, cls: type, key: str) -> Recomputed:
    return await rebuilds.mend(cls, key)


async def some(rebuilds: RebuildHarness, s: Any) -> None:
    await rebuilds.harness.migrate(s.Orders, s.Spend)
    for n in range(12):
        await rebuilds.harness.publish(OrderPlaced("ann" if n % 2 else "bob", 10), f"o{n}", 1)
        await rebuilds.harness.publish(OrderPaid(1), f"o{n}", 2)
        await rebuilds.harness.publish(OrderNoted("x"), f"o{n}", 3)


async def test_a_right_read_model_verifies_by_sample_and_as_a_whole(rebuilds: RebuildHarness) -> None:
    s = shop(rebuilds.harness.stream)
    await some(rebuilds, s)
    await rebuilds.harness.settle(s.Orders, s.Spend)
    effects = await rebuilds.effects()
    for cls, rows in ((s.Orders, 12), (s.Spend, 2)):
        assert await verify(rebuilds, cls) == Verified(definition(cls).name, 1, rows, 0, [], other_code=False)
        assert await verify(rebuilds, cls, 5) == Verified(
            definition(cls).name, 1, min(rows, 5), 0, [], other_code=False
        )
    assert await rebuilds.effects() == effects


@pytest.mark.parametrize("sample", [None, 100])
async def test_drift_is_named_by_row_column_and_the_version_from_which_on_it_is_there(
    rebuilds: RebuildHarness, sample: int | None
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await some(rebuilds, s)
    await harness.settle(s.Orders, s.Spend)
    await harness.pool.execute("update projectionist.orders__g1 set cents = 99 where order_id = 'o1'")
    await harness.pool.execute(
        """update projectionist.orders__g1 set history = '["placed","paid"]' where order_id = 'o2'"""
    )
    await harness.pool.execute(
        "update projectionist.spend__g1 set orders = orders + 1 where customer = 'ann'"
    )
    await harness.pool.execute("insert into projectionist.orders__g1 (order_id) values ('ghost')")

    found = {d.key: d for d in (await verify(rebuilds, s.Orders, sample)).drifts}
    (spent,) = (await verify(rebuilds, s.Spend, sample)).drifts

    assert found.keys() == {"o1", "o2", "ghost"}
    assert (found["o1"].live, found["o1"].folded, found["o1"].since) == (
        *({"cents": 99}, {"cents": 10}),
        "order/o1 v1",
    )
    assert found["o2"].since == "order/o2 v3"
    assert found["ghost"].folded is None
    assert (spent.live, spent.folded) == ({"orders": 7}, {"orders": 6})


async def test_a_row_that_lacks_is_found_when_all_are_verified(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await some(rebuilds, s)
    await harness.settle(s.Orders)
    await harness.pool.execute("delete from projectionist.orders__g1 where order_id = 'o3'")
    (lost,) = (await verify(rebuilds, s.Orders)).drifts
    assert (lost.key, lost.live, lost.since) == ("o3", None, "order/o3 v1")


async def test_decisions_are_repeated_and_what_is_parked_is_not_missed(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    await some(rebuilds, s)
    await harness.publish(OrderNoted("bad"), "o1", 4)
    await harness.publish(OrderNoted("after"), "o1", 5)
    await harness.publish(OrderNoted("bad"), "o2", 4)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        async with harness.verbs(s.Orders) as verbs:
            await verbs.skip("order/o1", ACT)
        await rebuilds.settled(s.Orders)
    s.trouble.poison.clear()
    assert (await verify(rebuilds, s.Orders)).drifts == []
    assert (await verify(rebuilds, s.Orders, 100)).drifts == []


async def test_verify_while_live_moves_finds_no_drift(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await some(rebuilds, s)
    async with harness.running(s.Orders, s.Spend, processes=2):
        for version in range(4, 10):
            for n in range(12):
                await harness.publish(OrderNoted("x"), f"o{n}", version)
                await harness.publish(OrderPlaced("ann", 1), f"n{version}-{n}", 1)
            assert (await verify(rebuilds, s.Orders)).drifts == []
            assert (await verify(rebuilds, s.Spend)).drifts == []


async def test_rows_that_do_not_fit_memory_are_verified_too(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "ROWS_AT_ONCE", 5)
    harness = rebuilds.harness
    s = shop(harness.stream)
    await some(rebuilds, s)
    await harness.settle(s.Orders)
    await harness.pool.execute("update projectionist.orders__g1 set cents = 99 where order_id = 'o1'")
    await harness.pool.execute("insert into projectionist.orders__g1 (order_id) values ('ghost')")
    found = await verify(rebuilds, s.Orders)
    assert sorted(d.key for d in found.drifts) == ["ghost", "o1"]
    assert found.rows == 13


@pytest.mark.parametrize(("name", "key"), [("Orders", "o1"), ("Spend", "ann")])
async def test_recompute_mends_one_row_silently_and_says_what_was_wrong(
    rebuilds: RebuildHarness, name: str, key: str
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    cls, table = getattr(s, name), name.lower()
    await some(rebuilds, s)
    await harness.settle(s.Orders, s.Spend)
    rows, effects = await harness.rows(table), await rebuilds.effects()
    column = "order_id" if name == "Orders" else "customer"
    await harness.pool.execute(f"update projectionist.{table}__g1 set cents = 77 where {column} = $1", key)

    done = await mend(rebuilds, cls, key)

    assert done.changed is not None
    assert done.changed.live == {"cents": 77}
    assert await harness.rows(table) == rows
    assert await rebuilds.effects() == effects
    assert (await mend(rebuilds, cls, key)).changed is None
    await harness.pool.execute(f"delete from projectionist.{table}__g1 where {column} = $1", key)
    await mend(rebuilds, cls, key)
    assert await harness.rows(table) == rows
    assert await harness.fetch(
        "select action, who, reason from {s}.audit where action = 'recompute' limit 1"
    ) == [("recompute", "me", "to see")]


async def test_recompute_removes_a_row_that_no_event_made(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await some(rebuilds, s)
    await harness.settle(s.Orders)
    await harness.pool.execute("insert into projectionist.orders__g1 (order_id) values ('ghost')")
    done = await mend(rebuilds, s.Orders, "ghost")
    assert done.events == 0
    assert await harness.fetch("select * from orders where order_id = 'ghost'") == []


async def test_a_sql_projection_has_no_single_rows_to_fold(rebuilds: RebuildHarness) -> None:
    s = shop(rebuilds.harness.stream)
    await rebuilds.harness.migrate(s.Journal)
    with pytest.raises(RebuildError, match="SQL of its own"):
        await verify(rebuilds, s.Journal)
    with pytest.raises(RebuildError, match="SQL of its own"):
        await mend(rebuilds, s.Journal, "x")


async def test_the_commands_tell_people_and_programs(rebuilds: RebuildHarness, tmp_path: Path) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await some(rebuilds, s)
    await harness.settle(s.Orders)
    env = shop_app(tmp_path, harness)
    await harness.pool.execute("update projectionist.orders__g1 set cents = 99 where order_id = 'o1'")

    told = await run_projectionist("verify", "orders:app", "Orders", "--all", cwd=tmp_path, **env)
    assert told.code == 3, told.err
    assert "o1, from order/o1 v1 on: live cents, by its events cents" in told.out
    told = await run_projectionist(
        *("verify", "orders:app", "Orders", "--all", "--reveal", "--reason", "drift"), cwd=tmp_path, **env
    )
    assert "o1, from order/o1 v1 on: live cents=99, by its events cents=10" in told.out
    assert await inspection.rows(harness, "audit", "object", action="reveal") == [("Orders: row o1",)]
    mended = await run_projectionist(
        *("recompute", "orders:app", "Orders", "o1", "--reveal", "--reason", "drift", "--json"),
        cwd=tmp_path,
        **env,
    )
    assert mended.code == 0, mended.err
    assert json.loads(mended.out)["recomputed"]["changed"]["live"] == {"cents": 99}
    nothing = await run_projectionist(
        *("recompute", "orders:app", "Orders", "o99", "--reason", "drift"), cwd=tmp_path, **env
    )
    assert (nothing.code, nothing.out) == (1, "Orders o99: there is no such row, and no event makes one\n")
    told = await run_projectionist("verify", "orders:app", "Orders", "--json", cwd=tmp_path, **env)
    assert (told.code, json.loads(told.out)["verified"][0]["drifted"]) == (0, 0)


async def test_versions_that_came_in_no_order_are_folded_in_theirs(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders, s.Spend)
    for version, event in ((3, OrderNoted("third")), (2, OrderPaid(1)), (1, OrderPlaced("ann", 10))):
        await harness.publish(event, "o1", version)
        await harness.publish(OrderPlaced("ann", 1), f"p{version}", 1)
    await harness.settle(s.Orders, s.Spend)
    assert (await harness.rows("orders"))[0] == ("o1", "paid", 10, '["placed", "paid", "third"]')
    for cls in (s.Orders, s.Spend):
        assert (await verify(rebuilds, cls, 10)).drifted == 0
    await harness.pool.execute("update projectionist.orders__g1 set history = '[]'")
    (drifted,) = [d for d in (await verify(rebuilds, s.Orders)).drifts if d.key == "o1"]
    assert (drifted.since, drifted.folded) == ("order/o1 v1", {"history": '["placed", "paid", "third"]'})
    assert (await mend(rebuilds, s.Orders, "o1")).events == 3


async def test_a_row_of_many_events_takes_no_memory_for_them(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of events: they are folded while they are read."""
    monkeypatch.setattr(refold_rows, "AT_ONCE", 100)
    monkeypatch.setattr(stream_reader, "BLOCK", 100)
    monkeypatch.setattr(stream_reader, "AT_ONCE", 200)
    harness, many = rebuilds.harness, 6_000
    s = shop(harness.stream)
    await harness.migrate(s.Spend)
    await harness.publish_all([(OrderPlaced("ann", 1), f"o{n}", 1, f"e{n}") for n in range(many)])
    await harness.settle(s.Spend)
    tracemalloc.start()
    try:
        done = await mend(rebuilds, s.Spend, "ann")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (done.changed, done.events) == (None, many)
    assert peak < 4_000_000, "kept whole they take 10 MB"


async def test_a_clash_that_is_decided_meanwhile_is_no_reason_to_read_again_and_an_edit_is(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    await some(rebuilds, s)
    await harness.publish(OrderNoted("thief"), "o1", 3, id="thief")
    await harness.publish(OrderNoted("bad"), "o2", 4, id="bad")
    await harness.settle(s.Orders)
    async with harness.pool.acquire() as connection:
        queries = Queries(connection, SCHEMA)
        consumer, _ = await live_consumer(queries, definition(s.Orders), harness.settings)
        looking = await begun(queries, consumer, harness.nats, ["o1"], [])
        decided = await queries.rows("select_decisions", consumer.number)
        assert [row["kind"] for row in decided] == ["winner"]
        assert not looking.outdated(decided)
        async with harness.verbs(s.Orders) as verbs:
            data = msgspec.json.encode(OrderNoted("good"))
            await verbs.edit(("shop", "bad"), data, b"0" * 16, ACT)
        assert looking.outdated(await queries.rows("select_decisions", consumer.number))


async def test_a_number_written_with_another_scale_is_the_same(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness

    class Balance(
        Projection,
        stream=harness.stream.name,
        subjects=harness.stream.subject("order", "{aggregate}"),
        table="balance",
        key="id",
    ):
        """Money, by order."""

        id: str
        money: Decimal = Decimal(0)

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.money = Decimal(event.cents) / 10

    await harness.migrate(Balance)
    await harness.publish(OrderPlaced("ann", 15), "o1", 1)
    await harness.settle(Balance)
    await harness.pool.execute("update projectionist.balance__g1 set money = 1.500")
    for sample in (None, 5):
        assert (await verify(rebuilds, Balance, sample)).drifted == 0
    assert (await mend(rebuilds, Balance, "o1")).changed is None
    await harness.pool.execute("update projectionist.balance__g1 set money = 1.501")
    (drifted,) = (await verify(rebuilds, Balance)).drifts
    assert (drifted.live, drifted.folded) == ({"money": "1.501"}, {"money": "1.5"})


@pytest.mark.parametrize("sample", [None, 5])
async def test_verify_names_an_applied_event_it_cannot_read_and_judges_no_row_without_it(
    rebuilds: RebuildHarness, sample: int | None
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await some(rebuilds, s)
    await harness.settle(s.Orders)

    class Placed(Event, type="order.placed"):
        """Asks for more than there was."""

        cents: int
        vat: int

    class Orders(
        Projection,
        stream=harness.stream.name,
        subjects=harness.stream.subject("order", "{aggregate}"),
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

    with pytest.raises(HandlersFailed) as told:
        await verify(rebuilds, Orders, sample)
    assert "vat" in told.value.stumbles[0].text


@pytest.mark.parametrize("sample", [None, 5])
async def test_verify_names_an_applied_event_for_which_this_code_finds_no_row(
    rebuilds: RebuildHarness, sample: int | None
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await some(rebuilds, s)
    await harness.settle(s.Spend)

    def unknown(event: OrderPlaced) -> str:
        raise LookupError(f"who is {event.customer}?")

    class Spend(
        Projection,
        stream=harness.stream.name,
        subjects=harness.stream.subject("order", "{aggregate}"),
        table="spend",
        key="customer",
    ):
        """Other code than the one that runs."""

        customer: str
        orders: int = 0
        cents: int = 0

        @on(OrderPlaced, key=unknown)
        def placed(self, event: OrderPlaced) -> None:
            self.orders += 1

    with pytest.raises(HandlersFailed) as told:
        await verify(rebuilds, Spend, sample)
    assert "who is" in told.value.stumbles[0].text
