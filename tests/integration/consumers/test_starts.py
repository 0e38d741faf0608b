"""What happens between a process's first look at its registration and its turn to take it up."""

from __future__ import annotations

import asyncio

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.shop import mended, shop
from tests.support.waiting import eventually

from projectionist.projections import definition
from projectionist.runner.batch.consumer import Superseded
from projectionist.runner.consumers.registry import NotRegistered
from projectionist.runner.database.barrier import barrier_key
from projectionist.runner.jetstream import api
from projectionist.runner.process.database_access import DatabaseAccess

pytestmark = pytest.mark.asyncio


async def test_a_consumer_that_is_renamed_while_a_process_waits_to_join_it_is_told_as_that(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    stream = await api.stream(live.nats, live.stream.name)
    number = await inspection.consumer_number(live)
    async with live.pool.acquire() as taker, taker.transaction():
        await taker.execute("select pg_advisory_xact_lock($1)", barrier_key(SCHEMA, number))
        joining = asyncio.create_task(
            DatabaseAccess(live.pool, SCHEMA).join(definition(s.Orders), live.policy, stream)
        )
        waiting = "select exists (select from pg_locks where locktype = 'advisory' and not granted)"

        async def waits() -> bool:
            return bool(await taker.fetchval(waiting))

        await eventually(waits)
        await taker.execute("update projectionist.consumers set name = 'Sales', epoch = epoch + 1")
    with pytest.raises(NotRegistered, match="not in the database"):
        await joining


async def test_old_code_is_taken_up_again_on_purpose_once_and_not_at_every_reconnect(
    live: ConsumerHarness,
) -> None:
    """With --allow-older-code a source is opened anew after an outage: by then newer code may be at work."""
    s, new = shop(live.stream), mended(live.stream)
    await live.migrate(s.Orders)
    stream = await api.stream(live.nats, live.stream.name)
    plain = DatabaseAccess(live.pool, SCHEMA)
    await plain.join(definition(s.Orders), live.policy, stream)
    await plain.join(definition(new), live.policy, stream)

    back = DatabaseAccess(live.pool, SCHEMA, allow_older_code=True)
    await back.join(definition(s.Orders), live.policy, stream)
    await back.join(definition(s.Orders), live.policy, stream)
    await DatabaseAccess(live.pool, SCHEMA, allow_older_code=True).join(definition(new), live.policy, stream)

    with pytest.raises(Superseded):
        await back.join(definition(s.Orders), live.policy, stream)
