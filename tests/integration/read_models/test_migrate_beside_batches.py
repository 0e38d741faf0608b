"""`migrate` beside what else may happen to the tables of a consumer."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.integration.consumers.test_evolve import grown
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPlaced, mended, shop
from tests.support.waiting import eventually

from projectionist.projections import definition
from projectionist.runner.database.barrier import barrier_key
from projectionist.runner.read_models.change_plan import ReadModelError

pytestmark = pytest.mark.asyncio

SWAP = """
create table projectionist.orders__g2 (like projectionist.orders__g1 including all);
alter table projectionist.orders__g2 owner to the_runner;
update projectionist.generations set state = 'kept';
insert into projectionist.generations (view, generation, state, tables, shape, code)
    select view, 2, 'live', tables, shape, code from projectionist.generations;
update projectionist.views set generation = 2;
update projectionist.consumers set epoch = epoch + 1;
create or replace view public.orders as select orders__g2.* from projectionist.orders__g2, (select) read_only;
"""


async def test_a_change_planned_for_a_generation_that_has_been_swapped_away_is_not_made(
    live: ConsumerHarness,
) -> None:
    """It would alter the old table and note the new one as altered: no batch could be written any more."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    number = await inspection.consumer_number(live)
    async with live.pool.acquire() as builder, builder.transaction():
        await builder.execute("select pg_advisory_xact_lock($1)", barrier_key(SCHEMA, number))
        migrating = asyncio.create_task(live.migrate(grown(live.stream)))

        async def waits() -> bool:
            return bool(
                await builder.fetchval(
                    "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
                )
            )

        await eventually(waits)
        await builder.execute(SWAP)
    with pytest.raises(ReadModelError, match="changed since this was planned"):
        await migrating

    await live.migrate(grown(live.stream))
    assert await live.value("select carrier from orders") is None


async def test_a_table_that_somebody_reads_for_long_is_left_alone_in_time_and_told(
    live: ConsumerHarness,
) -> None:
    """Batches wait behind the change: not for as long as a report takes."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with (
        batch_drivers(live, s.Orders) as (driver,),
        live.pool.acquire() as reader,
        reader.transaction(),
    ):
        await reader.fetch("select * from orders")
        with pytest.raises(ReadModelError, match="in use"):  # although the reader never ends
            await live.migrate(grown(live.stream), patience_s=4.0)
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1))
    assert await live.rows("orders") == [("o1", "placed", 1, '["placed"]')]
    await live.migrate(grown(live.stream))


async def test_code_that_was_refused_at_its_start_is_not_told_as_taken_up(
    live: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders):
        pass
    await live.pool.execute(
        "insert into projectionist.names (view, kind, name, owner)"
        " select number, 'slot', 'Gone', 'x' from projectionist.views"
    )
    await live.pool.execute("delete from projectionist.names where name = 'Receipt'")
    caplog.set_level(logging.INFO, logger="projectionist.runner")
    with pytest.raises(Exception, match="slot 'Gone' is gone"):
        async with batch_drivers(live, mended(live.stream)):
            pass

    assert await inspection.value(live, "views", "code") == definition(s.Orders).code
    assert not [record for record in caplog.records if "new code taken up" in record.getMessage()]


@pytest.mark.parametrize("kind", ["view", "table"])
async def test_a_name_that_is_taken_by_the_users_own_view_or_table_is_left_to_it(
    live: ConsumerHarness, kind: str
) -> None:
    """A view with the same columns would have been replaced without a word."""
    s = shop(live.stream)
    columns = "''::text as status, 1::bigint as cents, null::jsonb as history"
    await live.pool.execute(
        f"create {kind} orders as select 'mine'::text collate \"C\" as order_id, {columns}"
    )
    with pytest.raises(ReadModelError, match=r"public\.orders"):
        await live.migrate(s.Orders)

    assert await live.fetch("select order_id from orders") == [("mine",)]
    assert await inspection.rows(live, "consumers", "name") == []
    await live.pool.execute(f"drop {kind} orders")
    await live.migrate(s.Orders)
