"""Generations that were live are kept for a while; the way back catches them up and swaps again."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.support import inspection
from tests.support.process import run_projectionist
from tests.support.rebuilding import RebuildHarness, dying, shop_app
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, mended, shop
from tests.support.waiting import eventually

from projectionist.projections import definition
from projectionist.runner.database.barrier import barrier_key
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.read_models.generations import drop, generations, sweep

pytestmark = pytest.mark.asyncio


async def test_rolling_back_catches_the_kept_generation_up_and_forward_works_too(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    for n in range(6):
        await harness.publish(OrderPlaced("ann", n), f"o{n}", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    await harness.publish(OrderPaid(1), "o1", 2)
    await harness.publish(OrderPlaced("bob", 9), "o9", 1)
    await harness.settle(s.Orders)
    rows, effects = await harness.rows("orders"), await rebuilds.effects()

    back = await rebuilds.rebuild(s.Orders, back_to=1)

    assert (back.views[0].generation, back.caught_up) == (1, 2)
    assert await harness.rows("orders") == rows
    assert await rebuilds.effects() == effects
    await harness.publish(OrderNoted("later"), "o1", 3)
    await harness.settle(s.Orders)
    forward = await rebuilds.rebuild(s.Orders, back_to=2)
    assert (forward.views[0].generation, forward.caught_up) == (2, 1)
    assert ["placed", "paid", "later"] in [json.loads(row[3]) for row in await harness.rows("orders")]


async def test_without_order_there_is_no_way_back_and_a_rebuild_makes_the_rows_again(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, sequence="unordered")
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    async with harness.pool.acquire() as connection:
        listed = await generations(Queries(connection, SCHEMA), await inspection.view_number(harness))
    assert [(one.generation, one.can_roll_back) for one in listed if one.state == "kept"] == [(1, False)]

    with pytest.raises(
        RebuildError, match="generation 1 of Orders is not kept so that one can go back"
    ) as told:
        await rebuilds.rebuild(s.Orders, back_to=1)

    assert "without order there is no way back but a rebuild" in str(told.value.remedy)
    assert await rebuilds.generation(s.Orders) == 2
    assert (await rebuilds.rebuild(s.Orders)).views[0].compared.differences == []


async def test_going_back_needs_the_code_the_generation_was_run_by(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(mended(harness.stream))

    with pytest.raises(RebuildError, match="other code"):
        await rebuilds.rebuild(mended(harness.stream), back_to=1)
    await rebuilds.rebuild(s.Orders, back_to=1)

    assert await rebuilds.generation(s.Orders) == 1
    await harness.publish(OrderPaid(1), "o1", 2)
    await harness.settle(s.Orders)
    assert await harness.rows("orders") == [("o1", "paid", 1, '["placed", "paid"]')]


async def test_what_is_not_kept_is_no_way_back(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    with pytest.raises(RebuildError, match="not kept"):
        await rebuilds.rebuild(s.Orders, back_to=1)
    with pytest.raises(RebuildError, match="not kept"):
        await rebuilds.rebuild(s.Orders, back_to=7)


async def test_kept_generations_go_when_their_time_is_over_or_by_hand(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    await rebuilds.rebuild(s.Orders)
    number = await inspection.view_number(harness)
    async with harness.pool.acquire() as connection:
        queries = Queries(connection, SCHEMA)
        assert [(g.generation, g.state) for g in await generations(queries, number)] == [
            *((1, "kept"), (2, "kept"), (3, "live"))
        ]
        await drop(queries, number, 1)
        assert await sweep(queries, number) == []
        await harness.pool.execute(
            f"update {SCHEMA}.generations set kept_until = clock_timestamp() where state = 'kept'"
        )
        assert await sweep(queries, number) == [2]
        with pytest.raises(RebuildError):
            await drop(queries, number, 3)
    assert await rebuilds.tables() == ["orders__g3"]
    assert await harness.rows("orders") == [("o1", "placed", 1, '["placed"]')]


async def test_a_running_consumer_drops_what_was_kept_long_enough(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    harness.settings = msgspec.structs.replace(
        harness.settings,
        consumer_defaults=msgspec.structs.replace(harness.settings.consumer_defaults, keep_generation_s=0),
    )
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)

    async def swept() -> bool:
        return await rebuilds.tables() == ["orders__g2"]

    async with harness.running(s.Orders):
        await eventually(swept)


async def test_the_command_lists_rolls_back_and_drops(rebuilds: RebuildHarness, tmp_path: Path) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders, s.Spend)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    env = shop_app(tmp_path, harness)

    async def said(*words: str) -> tuple[int, str]:
        ended = await run_projectionist(*words, cwd=tmp_path, **env)
        return ended.code, ended.out or ended.err

    quiet = await run_projectionist("rebuild", "orders:app", "Orders", "--quiet", cwd=tmp_path, **env)
    assert (quiet.code, quiet.err) == (0, ""), "no progress, nothing beside the result"
    assert "Orders" in quiet.out
    code, text = await said("generations", "list", "orders:app", "Orders")
    assert code == 0
    assert "kept" in text
    assert (await said("generations", "rollback", "orders:app", "Orders", "1"))[0] == 0
    assert await rebuilds.generation(s.Orders) == 1
    assert (await said("generations", "drop", "orders:app", "Orders", "2"))[0] == 0
    code, text = await said("generations", "list", "orders:app", "Orders", "--json")
    assert [g["generation"] for g in json.loads(text)["generations"]] == [1]
    assert (await said("generations", "drop", "orders:app", "Orders"))[0] == 2
    assert definition(s.Orders).name == "Orders"


async def test_a_generation_to_which_a_rollback_is_open_is_not_dropped(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    number = await inspection.view_number(harness)
    async with (
        rebuilds.frozen(s.Orders, "rebuild.flipped", back_to=1) as building,
        harness.pool.acquire() as connection,
    ):
        with pytest.raises(RebuildError, match="a rollback to generation 1 is open"):
            await drop(rebuilds.queries(connection), number, 1)
    assert (await building).views[0].generation == 1


async def test_a_rollback_whose_tables_are_gone_is_given_up_with_its_generation(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    with dying("rebuild.flipped"):
        await rebuilds.rebuild(s.Orders, back_to=1)
    await harness.pool.execute("drop table projectionist.orders__g1")
    await rebuilds.give_up(s.Orders)
    assert await inspection.rows(harness, "generations", "generation", "state", order="generation") == [
        (1, "dropped"),
        (2, "live"),
    ]
    assert await rebuilds.positions() == []


@pytest.mark.parametrize(
    "point", ["rebuild.opened", "rebuild.prepared", "rebuild.flushed", "rebuild.indexed", "swap.written"]
)
async def test_an_abandoned_build_leaves_no_positions_and_a_kept_generation_keeps_its_own(
    rebuilds: RebuildHarness, point: str
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    [kept] = await rebuilds.positions()
    with dying(point):
        await rebuilds.rebuild(s.Orders)
    await rebuilds.give_up(s.Orders)
    assert await rebuilds.positions() == [kept]
    assert (await rebuilds.rebuild(s.Orders, back_to=1)).views[0].generation == 1


async def test_a_generation_that_cannot_be_dropped_keeps_no_other(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    for _ in range(2):
        await rebuilds.rebuild(s.Orders)
    await harness.pool.execute("create view report as select * from projectionist.orders__g1")
    await harness.pool.execute("update projectionist.generations set kept_until = now() where state = 'kept'")
    number = await inspection.view_number(harness)
    async with harness.pool.acquire() as connection:
        with pytest.raises(RebuildError, match="generation 1 cannot be dropped: view report"):
            await sweep(rebuilds.queries(connection), number)
    assert await rebuilds.tables() == ["orders__g1", "orders__g3"]


async def test_batches_go_on_while_somebody_reads_a_generation_that_is_to_be_dropped(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    number = await inspection.view_number(harness)
    async with (
        harness.pool.acquire() as reader,
        harness.pool.acquire() as batch,
        harness.pool.acquire() as connection,
    ):
        await batch.execute("begin")
        await batch.execute("select pg_advisory_xact_lock_shared($1)", barrier_key(SCHEMA, number))
        async with reader.transaction():
            await reader.fetch("select * from projectionist.orders__g1")
            with pytest.raises(RebuildError, match="a session reads it"):
                await drop(rebuilds.queries(connection), number, 1)
        await drop(rebuilds.queries(connection), number, 1)
        await batch.execute("rollback")
    assert await rebuilds.tables() == ["orders__g2"]


async def test_a_reader_of_the_positions_of_one_build_delays_no_other_build_and_no_drop(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders, s.Spend)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders, s.Spend)
    await rebuilds.rebuild(s.Orders)
    build = await inspection.value(harness, "builds", "number")
    number = await inspection.view_number(harness, "Spend")
    reader = await harness.own_connection()
    await reader.execute(f"begin; select * from projectionist.build_positions_{build}")

    assert (await rebuilds.rebuild(s.Spend)).views[0].generation == 2
    async with harness.pool.acquire() as connection:
        await drop(rebuilds.queries(connection), number, 1)

    await reader.close()
