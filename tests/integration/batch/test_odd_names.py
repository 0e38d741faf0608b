"""Names that need quoting, from the schema down to the identities of events."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.batch_driver import BatchDriver
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.operator import Act
from projectionist.migrations import migrate
from projectionist.projections import definition
from projectionist.runner.admin.parked_actions import ParkedActions
from projectionist.runner.batch.batch_session import BatchSession, store_of
from projectionist.runner.batch.handler_factory import model_for
from projectionist.runner.batch.types import Batch
from projectionist.runner.jetstream import api
from projectionist.runner.process.database_access import DatabaseAccess
from projectionist.runner.read_models.migrate import ReadModels

pytestmark = pytest.mark.asyncio

ACT = Act("ops", "the test wants it")
LONG = "é" * 120


@pytest.mark.parametrize("schema", ["{journal} {schema}", 'Ünïcode\'s "$1" %s ; --'])
async def test_a_schema_may_be_called_anything_that_can_be_quoted(live: ConsumerHarness, schema: str) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    consumers = [definition(s.Orders), definition(s.Journal)]
    settings = msgspec.structs.replace(live.settings.postgres, schema=schema)
    async with live.pool.acquire() as connection:
        await migrate(connection, schema)
        models = ReadModels(connection, schema)
        await models.apply(consumers, await models.plan(consumers))
    stream = await api.stream(live.nats, live.stream.name)
    access = DatabaseAccess(live.pool, schema)
    for one in consumers:
        consumer = await access.join(one, live.policy, stream)
        session = BatchSession(consumer, settings, lambda c, who: model_for(c, who, schema))
        driver = BatchDriver(consumer, session, live)
        try:
            await driver.settle(
                driver.read(OrderPlaced("ann", 1), LONG, 1, id=LONG, source="s'\"" + LONG),
                driver.read(OrderNoted("bad"), LONG, 2, id="b"),
                driver.read(OrderPaid(), LONG, 3, id="c"),
            )
            store, _ = await session.ready()
            s.trouble.poison.clear()
            await ParkedActions(store_of(store.connection, schema, consumer.number)).retry(
                f"order/{LONG}", ACT
            )
            await driver.settler.settle(Batch(due=await store.due(10)))
            await driver.settle_due()
            (position,) = await store.connection.fetch(
                store._sql["lock_positions"], consumer.number, [f"order/{LONG}"]
            )
            assert (position["version"], position["head"]) == (3, "clear")
        finally:
            s.trouble.poison.add("bad")
            await session.close()

    assert await live.rows("orders") == [(LONG, "paid", 1, '["placed", "bad", "paid"]')]
    assert await live.rows("journal") == [("b", "bad")]
