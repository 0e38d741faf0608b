"""A raised revision: new processes build its generation while old ones serve, then take over."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.support import inspection
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderRow, shop
from tests.support.waiting import eventually, listening

from projectionist.core.nats import connections
from projectionist.projections import Projection, definition, on
from projectionist.runner.batch.consumer import Superseded
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.process.consumer_worker import ConsumerWorker
from projectionist.runner.process.database_access import DatabaseAccess
from projectionist.runner.read_models.change_plan import ReadModelError
from projectionist.runner.read_models.migrate import ReadModels

pytestmark = pytest.mark.asyncio


def second(rebuilds: RebuildHarness, **changed: Any) -> type:
    """`Orders` at revision 2: it counts notes, in a column of its own."""
    stream = rebuilds.harness.stream
    policy: dict[str, Any] = {
        "stream": stream.name,
        "subjects": stream.subject("order", "{aggregate}"),
        "effects": "beginning",
        "revision": 2,
    }

    class Orders(OrderRow, table="orders", key="order_id", **(policy | changed)):
        notes: int = 0

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.notes += 1
            self.history.append(event.text)

    return Orders


async def test_a_raised_revision_is_built_beside_the_old_one_and_repeats_no_effects(
    rebuilds: RebuildHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness = rebuilds.harness
    old = shop(harness.stream).Orders
    await harness.migrate(old)
    for n in range(10):
        await harness.publish(OrderPlaced("ann", n), f"o{n}", 1)
        await harness.publish(OrderPaid(1), f"o{n}", 2)
    new = second(rebuilds)
    stop = asyncio.Event()

    async def publish() -> int:
        n = 0
        while not stop.is_set():
            n += 1
            await harness.publish(OrderNoted("x"), "o1", n + 2)
            await asyncio.sleep(0.005)
        return n

    access = DatabaseAccess(harness.pool, SCHEMA)
    clients = [await connections.connect(harness.settings.nats, name=f"revision {n}") for n in range(3)]
    workers = [
        ConsumerWorker(definition(cls), harness.settings, c, access)
        for cls, c in zip((old, new, new), clients, strict=True)
    ]
    caplog.set_level("INFO", "projectionist.runner")
    with listening() as heard:
        serving = asyncio.create_task(workers[0].run())
        await heard.wait("worker.running")
        publishing = asyncio.create_task(publish())
        fresh = [asyncio.create_task(worker.run()) for worker in workers[1:]]
        await heard.wait("swap.committed")
        await heard.wait("worker.running", 3)
        stop.set()
        published = await publishing
        with pytest.raises(Superseded):
            await serving

        async def all_there() -> bool:
            return (await harness.head(new, "order/o1"))[0] == published + 2

        await eventually(all_there)
        for worker in workers[1:]:
            worker.stop()
        await asyncio.gather(*fresh)
    for client in clients:
        await client.close()

    assert await rebuilds.generation(new) == 2
    assert "Orders: intents of history are not made by the build: 10 x Receipt" in caplog.messages
    (row,) = await harness.fetch("select history, notes from orders where order_id = 'o1'")
    assert (len(json.loads(row[0])), row[1]) == (published + 2, published)
    assert await inspection.count_intents(harness) == 10
    assert await harness.value("select count(distinct key) from {s}.intents") == 10
    with pytest.raises(Superseded):
        async with harness.running(old):
            await heard_nothing(harness)


async def heard_nothing(harness: Any) -> None:
    """Give a superseded process the time to say so."""

    async def over() -> bool:
        return any(task.done() for task in harness._tasks)

    await eventually(over)


async def test_a_raised_revision_of_the_same_code_ends_older_processes_too(rebuilds: RebuildHarness) -> None:
    """It is raised where something outside the code changes what events do: theirs is still the former."""
    harness = rebuilds.harness
    old, new = second(rebuilds, revision=1), second(rebuilds)
    assert definition(old).code == definition(new).code
    await harness.migrate(old)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)

    async def overtaken() -> None:
        async with harness.running(old):
            await harness.settled(old)
            await rebuilds.rebuild(new)
            await harness.publish(OrderPlaced("ann", 1), "o2", 1)
            await heard_nothing(harness)

    with pytest.raises(Superseded):
        await overtaken()
    assert len(await harness.rows("orders")) == 1
    await harness.settle(new)
    assert len(await harness.rows("orders")) == 2


async def test_migrate_leaves_a_raised_revision_to_a_build_and_refuses_a_lowered_one(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    old = shop(harness.stream).Orders
    await harness.migrate(old)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(old)
    new = second(rebuilds)
    async with harness.pool.acquire() as connection:
        (change,) = await ReadModels(connection, SCHEMA).plan([definition(new)])
        assert change.rebuild
        await rebuilds.rebuild(new)
        with pytest.raises(ReadModelError, match="revision 2"):
            await ReadModels(connection, SCHEMA).plan([definition(old)])
        assert await ReadModels(connection, SCHEMA).plan([definition(new)]) == []
    with pytest.raises(RebuildError, match="revision 2"):
        await rebuilds.rebuild(old)
    back = await rebuilds.rebuild(old, back_to=1)
    assert back.views[0].generation == 1
    assert await inspection.value(harness, "views", "revision") == 1


async def test_removed_columns_remake_the_view_with_its_grants_unless_a_view_depends_on_it(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    old = shop(harness.stream).Orders
    await harness.migrate(old)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(old)
    stream = harness.stream

    class Orders(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
        revision=2,
    ):
        order_id: str
        cents: str = "0"

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.cents = f"{event.cents} cents"

    await harness.pool.execute("grant select on orders to public")
    await harness.pool.execute("create view cheap as select order_id from orders where cents < 10")
    with pytest.raises(RebuildError, match=r"view public\.cheap"):
        await rebuilds.rebuild(Orders)
    assert await harness.rows("cheap") == [("o1",)]
    await harness.pool.execute("drop view cheap")

    rebuilt = await rebuilds.rebuild(Orders)

    assert rebuilt.resumed
    assert rebuilt.views[0].compared.left_out == ["cents", "history", "status"]
    assert await harness.rows("orders") == [("o1", "1 cents")]
    assert await harness.value("select has_table_privilege('public', 'orders', 'select')")


async def test_users_views_and_grants_survive_a_rebuild_that_only_adds_columns(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    old = shop(harness.stream).Orders
    await harness.migrate(old)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(old)
    await harness.pool.execute("grant select on orders to public")
    await harness.pool.execute("create view cheap as select order_id, cents from orders")
    async with harness.pool.acquire() as reader:
        prepared = await reader.prepare("select order_id, cents from orders")
        assert [tuple(row) for row in await prepared.fetch()] == [("o1", 1)]
        await rebuilds.rebuild(second(rebuilds))
        assert [tuple(row) for row in await prepared.fetch()] == [("o1", 1)]
    assert await harness.rows("cheap") == [("o1", 1)]
    assert await harness.rows("orders") == [("o1", "placed", 1, '["placed"]', 0)]
    assert await harness.value("select has_table_privilege('public', 'orders', 'select')")
