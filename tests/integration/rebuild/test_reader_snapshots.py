"""Readers that would find the new generation empty: those of other roles and of standbys are waited for as well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest
import pytest_asyncio
from tests.support.rebuilding import RebuildHarness
from tests.support.roles import as_plain, plain
from tests.support.servers import Servers
from tests.support.shop import OrderPlaced, shop
from tests.support.standby import standby
from tests.support.waiting import listening

from projectionist.core.postgres.connections import Connection
from projectionist.core.retry_policy import RetryPolicy
from projectionist.runner.rebuild import reader_snapshots
from projectionist.runner.rebuild.rebuild import Rebuilt
from projectionist.runner.rebuild.times import RebuildTimes

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def rebuilds(rebuilds: RebuildHarness) -> AsyncIterator[RebuildHarness]:
    """Builders of a role that is no superuser."""
    async with as_plain(rebuilds.harness):
        yield rebuilds


async def _filled(rebuilds: RebuildHarness) -> type:
    harness = rebuilds.harness
    orders: type = shop(harness.stream).Orders
    await harness.migrate(orders)
    for n in range(3):
        await harness.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    await harness.settle(orders)
    return orders


async def test_a_reader_of_another_role_is_waited_for_by_a_runner_that_is_no_superuser(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    async with plain(harness, "the_reader") as theirs:
        await harness.pool.execute("grant select on orders to the_reader")
        reader = await asyncpg.connect(theirs)
        await reader.execute("begin isolation level repeatable read; select 1")
        with listening() as heard:
            building = asyncio.create_task(rebuilds.rebuild(orders))
            await heard.wait("rebuild.waiting")
            assert await reader.fetchval("select count(*) from orders") == 3
            await reader.execute("commit")
            assert (await building).views[0].generation == 2
        assert await reader.fetchval("select count(*) from orders") == 3
        await reader.close()


SOON = RebuildTimes(readers_s=30.0, tries=RetryPolicy(initial_s=0.05, maximum_s=0.1))


async def test_a_reader_that_began_after_the_new_rows_is_not_waited_for(
    rebuilds: RebuildHarness,
) -> None:
    """Not even while a transaction that writes, and is older than they, keeps every snapshot looking old."""
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    await harness.pool.execute("create table other (n int)")
    async with (
        harness.pool.acquire() as writer,
        harness.pool.acquire() as old,
        harness.pool.acquire() as young,
    ):
        await writer.execute("begin; insert into other values (1)")
        await old.execute("begin isolation level repeatable read; select 1")
        with listening() as heard:
            building = asyncio.create_task(rebuilds.rebuild(orders, times=SOON))
            await heard.wait("rebuild.waiting")
            await young.execute("begin isolation level repeatable read")
            assert await young.fetchval("select count(*) from other") == 0
            await old.execute("commit")
            assert (await building).views[0].generation == 2
        assert await young.fetchval("select count(*) from orders") == 3
        await young.execute("commit")
        await writer.execute("commit")


async def test_a_reader_whose_snapshot_is_from_before_the_last_events_is_waited_for(
    rebuilds: RebuildHarness,
) -> None:
    """It would find the rows of the new generation as they were then, which is older than what it could see before."""
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    await harness.pool.execute("create table other (n int)")
    async with harness.pool.acquire() as reader:
        with listening() as heard:
            async with harness.running(orders):
                async with rebuilds.frozen(orders, "swap.asked") as building:
                    await harness.publish(OrderPlaced("ann", 1), "o9", 1)
                    await harness.settled(orders)
                    await reader.execute("begin isolation level repeatable read; select from other")
                await heard.wait("swap.left")
                assert await reader.fetchval("select count(*) from orders") == 4
                await reader.execute("commit")
                assert (await building).views[0].generation == 2
        assert await reader.fetchval("select count(*) from orders") == 4


async def test_who_always_has_a_snapshot_keeps_a_swap_waiting_for_some_tries_only(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    await harness.pool.execute("create table other (n int)")
    monkeypatch.setattr(reader_snapshots, "MOMENTS", 2)
    async with harness.pool.acquire() as reader:
        with listening() as heard:
            async with rebuilds.frozen(orders, "swap.asked") as building:
                await reader.execute("begin isolation level repeatable read; select from other")
            assert (await building).views[0].generation == 2
        assert heard.counts["swap.seen"] == 2
        assert await reader.fetchval("select count(*) from orders") == 3
        await reader.execute("commit")


async def test_a_reader_on_a_standby_that_tells_of_its_readers_is_waited_for(
    rebuilds: RebuildHarness, servers: Servers
) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    with standby(servers) as copy:
        await copy.configured("hot_standby_feedback = on", "wal_receiver_status_interval = '1s'")
        await copy.caught_up()
        reader = await asyncpg.connect(copy.url(harness.database))
        await reader.execute("begin isolation level repeatable read; select 1")
        await copy.told()
        with listening() as heard:
            building = asyncio.create_task(rebuilds.rebuild(orders))
            await heard.wait("rebuild.waiting")
            assert await reader.fetchval("select count(*) from orders") == 3
            await reader.execute("commit")
            assert (await building).views[0].generation == 2
        await copy.caught_up()
        assert await reader.fetchval("select count(*) from orders") == 3
        await reader.close()


async def test_a_standby_that_does_not_tell_of_its_readers_needs_a_word(
    rebuilds: RebuildHarness, servers: Servers
) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    with standby(servers):
        with pytest.raises(reader_snapshots.Unseen, match=r"standby 'walreceiver'.* does not say"):
            await rebuilds.rebuild(orders, times=RebuildTimes(unseen_s=0.5))
        assert await rebuilds.generation(orders) == 1
        harness.settings = msgspec.structs.replace(
            harness.settings, postgres=msgspec.structs.replace(harness.settings.postgres, unseen_readers=True)
        )
        assert (await rebuilds.rebuild(orders)).views[0].generation == 2


async def _seen_after_the_swap(
    rebuilds: RebuildHarness, reader: Connection, building: asyncio.Future[Rebuilt]
) -> int:
    """How many orders a transaction sees that began before: as soon as the swap waits for it, or is done."""
    with listening() as heard:
        waiting = asyncio.create_task(heard.wait("rebuild.waiting"))
        both: list[asyncio.Future[Any]] = [waiting, building]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    seen: int = await reader.fetchval("select count(*) from orders")
    await reader.execute("commit")
    return seen


async def test_a_reader_that_began_while_it_was_catching_up_is_waited_for(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    async with harness.running(orders), harness.pool.acquire() as reader:
        async with rebuilds.frozen(orders, "rebuild.bulk_done") as building:
            await harness.publish(OrderPlaced("cyd", 1), "o9", 1)
            await rebuilds.settled(orders)
            await reader.execute("begin isolation level repeatable read; select 1")
            rebuilds.free(building)
            assert await _seen_after_the_swap(rebuilds, reader, building) == 4
        assert (await building).views[0].generation == 2


async def test_a_reader_that_began_before_a_rollback_is_waited_for(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    await rebuilds.rebuild(orders)
    await harness.publish(OrderPlaced("cyd", 1), "o9", 1)
    await harness.settle(orders)
    async with harness.pool.acquire() as reader:
        await reader.execute("begin isolation level repeatable read; select 1")
        building = asyncio.ensure_future(rebuilds.rebuild(orders, back_to=1))
        assert await _seen_after_the_swap(rebuilds, reader, building) == 4
        assert (await building).views[0].generation == 1
