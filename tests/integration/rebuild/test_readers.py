"""Readers never see an error, a missing table or fewer rows, whatever they read by."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import asyncpg
import psycopg
import pytest
from tests.support.onlookers import Onlooker, Onlookers
from tests.support.rebuilding import RebuildHarness
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.runner.database import barrier

Isolation = Literal["read_committed", "repeatable_read"]

pytestmark = pytest.mark.asyncio


async def test_ten_rebuilds_under_hammering_readers_show_no_error_and_no_missing_row(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish_all([(OrderPlaced("ann", n), f"o{n}", 1, f"e{n}") for n in range(200)])
    await harness.settle(s.Orders)
    await harness.pool.execute("create view names as select order_id from orders")
    over, reads = asyncio.Event(), 0

    async def hammer(sql: str, *, isolation: Isolation | None) -> None:
        nonlocal reads
        connection = await asyncpg.connect(harness.database)
        try:
            prepared = None if isolation else await connection.prepare(sql)
            while not over.is_set():
                if prepared is not None:
                    assert await prepared.fetchval() == 200
                else:
                    async with connection.transaction(isolation=isolation):
                        assert await connection.fetchval(sql) == 200
                        assert await connection.fetchval(sql) == 200
                reads += 1
        finally:
            await connection.close()

    def foreign() -> int:
        """Another driver, on a thread: its statement is prepared on the server after a few executions."""
        seen = 0
        with psycopg.connect(harness.database, autocommit=True, prepare_threshold=1) as connection:
            while not over.is_set():
                for sql in (
                    "select count(*) from orders",
                    "select order_id, cents from orders order by 1 limit 1",
                ):
                    row = connection.execute(sql, prepare=True).fetchone()
                    assert row in [(200,), ("o0", 0)]
                seen += 1
            prepared = connection.execute("select count(*) from pg_prepared_statements").fetchone()
            assert prepared is not None
            assert prepared[0] >= 2
        return seen

    readers: list[asyncio.Task[Any]] = [
        asyncio.create_task(asyncio.to_thread(foreign)),
        asyncio.create_task(hammer("select count(*) from orders", isolation=None)),
        asyncio.create_task(hammer("select count(*) from (select * from orders) o", isolation=None)),
        asyncio.create_task(hammer("select count(*) from names", isolation="read_committed")),
        asyncio.create_task(hammer("select count(*) from orders", isolation="repeatable_read")),
    ]
    try:
        for _ in range(10):
            await rebuilds.rebuild(s.Orders)
            for reader in readers:
                assert not reader.done(), reader.result()
    finally:
        over.set()  # a thread is not cancelled
    seen, *_ = await asyncio.gather(*readers)
    assert await rebuilds.generation(s.Orders) == 11
    assert reads > 100
    assert seen > 20


async def test_a_reader_in_a_long_transaction_delays_others_for_a_moment_at_a_time(
    rebuilds: RebuildHarness,
) -> None:
    """The swap asks for the view while it is read: whoever reads it meanwhile stands behind the swap."""
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.pool.execute("create table untouched (n int)")
    await harness.publish_all([(OrderPlaced("ann", n), f"o{n}", 1, f"e{n}") for n in range(200)])
    await harness.settle(s.Orders)

    def wrong(row: Any, _: int) -> str | None:
        return None if row["n"] == 200 else f"{row['n']} rows"

    onlooker = Onlooker("another", harness.database, "select count(*) as n from orders", wrong)
    holder = await asyncpg.connect(harness.database)
    with listening() as heard:
        async with rebuilds.frozen(s.Orders, "swap.asked") as building:
            await holder.execute("begin; select count(*) from orders")
            crowd = Onlookers(onlooker, beside="select count(*) from untouched")
            with crowd:
                rebuilds.free(building)
                await heard.wait("swap.left", 6)
                await holder.execute("commit")
                await building
    await holder.close()

    assert onlooker.errors == []
    assert onlooker.kept_waiting() < barrier.patience(0) + 0.2
    waited = sum(one.ended - one.began for one in onlooker.waits)
    assert waited < 0.5 * (onlooker.over - onlooker.since), "it is let alone between two tries"
