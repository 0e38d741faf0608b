"""Readers that would find the new generation empty: those of other roles and of standbys are waited for as well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest
import pytest_asyncio
from tests.support.rebuilding import Yard
from tests.support.roles import as_plain, plain
from tests.support.servers import Lab
from tests.support.shop import OrderPlaced, shop
from tests.support.standby import standby
from tests.support.waiting import listening

from projectionist.core.postgres.connections import Connection
from projectionist.runner.rebuild import reader_snapshots
from projectionist.runner.rebuild.rebuild import Rebuilt

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def yard(yard: Yard) -> AsyncIterator[Yard]:
    """Builders of a role that is no superuser."""
    async with as_plain(yard.rig):
        yield yard


async def _filled(yard: Yard) -> type:
    rig = yard.rig
    orders: type = shop(rig.stream).Orders
    await rig.migrate(orders)
    for n in range(3):
        await rig.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    await rig.settle(orders)
    return orders


async def test_a_reader_of_another_role_is_waited_for_by_a_runner_that_is_no_superuser(yard: Yard) -> None:
    rig = yard.rig
    orders = await _filled(yard)
    async with plain(rig, "the_reader") as theirs:
        await rig.pool.execute("grant select on orders to the_reader")
        reader = await asyncpg.connect(theirs)
        await reader.execute("begin isolation level repeatable read; select 1")
        with listening() as heard:
            building = asyncio.create_task(yard.rebuild(orders))
            await heard.wait("rebuild.waiting")
            assert await reader.fetchval("select count(*) from orders") == 3
            await reader.execute("commit")
            assert (await building).generation == 2
        assert await reader.fetchval("select count(*) from orders") == 3
        await reader.close()


async def test_a_reader_that_began_after_the_new_rows_is_not_waited_for(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even while a transaction that writes, and is older than they, keeps every snapshot looking old."""
    rig = yard.rig
    orders = await _filled(yard)
    await rig.pool.execute("create table other (n int)")
    monkeypatch.setattr(reader_snapshots, "WAIT_S", 5.0)
    async with rig.pool.acquire() as writer, rig.pool.acquire() as old, rig.pool.acquire() as young:
        await writer.execute("begin; insert into other values (1)")
        await old.execute("begin isolation level repeatable read; select 1")
        with listening() as heard:
            building = asyncio.create_task(yard.rebuild(orders))
            await heard.wait("rebuild.waiting")
            await young.execute("begin isolation level repeatable read")
            assert await young.fetchval("select count(*) from other") == 0
            await old.execute("commit")
            assert (await building).generation == 2
        assert await young.fetchval("select count(*) from orders") == 3
        await young.execute("commit")
        await writer.execute("commit")


async def test_a_reader_whose_snapshot_is_from_before_the_last_events_is_waited_for(yard: Yard) -> None:
    """It would find the rows of the new generation as they were then, which is older than what it could see before."""
    rig = yard.rig
    orders = await _filled(yard)
    await rig.pool.execute("create table other (n int)")
    async with rig.pool.acquire() as reader:
        with listening() as heard:
            async with rig.running(orders):
                async with yard.frozen(orders, "swap.asked") as building:
                    await rig.publish(OrderPlaced("ann", 1), "o9", 1)
                    await rig.settled(orders)
                    await reader.execute("begin isolation level repeatable read; select from other")
                await heard.wait("swap.left")
                assert await reader.fetchval("select count(*) from orders") == 4
                await reader.execute("commit")
                assert (await building).generation == 2
        assert await reader.fetchval("select count(*) from orders") == 4


async def test_who_always_has_a_snapshot_keeps_a_swap_waiting_for_some_tries_only(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = yard.rig
    orders = await _filled(yard)
    await rig.pool.execute("create table other (n int)")
    monkeypatch.setattr(reader_snapshots, "MOMENTS", 2)
    async with rig.pool.acquire() as reader:
        with listening() as heard:
            async with yard.frozen(orders, "swap.asked") as building:
                await reader.execute("begin isolation level repeatable read; select from other")
            assert (await building).generation == 2
        assert heard.counts["swap.seen"] > 0
        assert await reader.fetchval("select count(*) from orders") == 3
        await reader.execute("commit")


async def test_a_reader_on_a_standby_that_tells_of_its_readers_is_waited_for(yard: Yard, lab: Lab) -> None:
    rig = yard.rig
    orders = await _filled(yard)
    with standby(lab) as copy:
        await copy.configured("hot_standby_feedback = on", "wal_receiver_status_interval = '1s'")
        await copy.caught_up()
        reader = await asyncpg.connect(copy.url(rig.database))
        await reader.execute("begin isolation level repeatable read; select 1")
        await copy.told()
        with listening() as heard:
            building = asyncio.create_task(yard.rebuild(orders))
            await heard.wait("rebuild.waiting")
            assert await reader.fetchval("select count(*) from orders") == 3
            await reader.execute("commit")
            assert (await building).generation == 2
        await copy.caught_up()
        assert await reader.fetchval("select count(*) from orders") == 3
        await reader.close()


async def test_a_standby_that_does_not_tell_of_its_readers_needs_a_word(
    yard: Yard, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = yard.rig
    orders = await _filled(yard)
    monkeypatch.setattr(reader_snapshots, "UNSEEN_S", 0.5)
    with standby(lab):
        with pytest.raises(reader_snapshots.Unseen, match=r"standby 'walreceiver'.* does not say"):
            await yard.rebuild(orders)
        assert await yard.generation(orders) == 1
        rig.settings = msgspec.structs.replace(
            rig.settings, postgres=msgspec.structs.replace(rig.settings.postgres, unseen_readers=True)
        )
        assert (await yard.rebuild(orders)).generation == 2


async def _seen_after_the_swap(yard: Yard, reader: Connection, building: asyncio.Future[Rebuilt]) -> int:
    """How many orders a transaction sees that began before: as soon as the swap waits for it, or is done."""
    with listening() as heard:
        waiting = asyncio.create_task(heard.wait("rebuild.waiting"))
        both: list[asyncio.Future[Any]] = [waiting, building]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    seen: int = await reader.fetchval("select count(*) from orders")
    await reader.execute("commit")
    return seen


async def test_a_reader_that_began_while_it_was_catching_up_is_waited_for(yard: Yard) -> None:
    rig = yard.rig
    orders = await _filled(yard)
    async with rig.running(orders), rig.pool.acquire() as reader:
        async with yard.frozen(orders, "rebuild.bulk_done") as building:
            await rig.publish(OrderPlaced("cyd", 1), "o9", 1)
            await yard.settled(orders)
            await reader.execute("begin isolation level repeatable read; select 1")
            yard.free(building)
            assert await _seen_after_the_swap(yard, reader, building) == 4
        assert (await building).generation == 2


async def test_a_reader_that_began_before_a_rollback_is_waited_for(yard: Yard) -> None:
    rig = yard.rig
    orders = await _filled(yard)
    await yard.rebuild(orders)
    await rig.publish(OrderPlaced("cyd", 1), "o9", 1)
    await rig.settle(orders)
    async with rig.pool.acquire() as reader:
        await reader.execute("begin isolation level repeatable read; select 1")
        building = asyncio.ensure_future(yard.rebuild(orders, back_to=1))
        assert await _seen_after_the_swap(yard, reader, building) == 4
        assert (await building).generation == 1
