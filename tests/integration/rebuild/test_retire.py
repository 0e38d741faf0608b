"""A consumer that no app has any more is removed by a word, and its names are not given again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import RebuildHarness
from tests.support.retention import sent
from tests.support.shop import OrderPaid, OrderPlaced, OrderRow, shop

from projectionist.runner.read_models.change_plan import ReadModelError

pytestmark = pytest.mark.asyncio
WHY = ("--reason", "replaced")
TABLES = "select count(*) from pg_class where relname like 'orders%' and relkind in ('r', 'v')"
KNOWN = """select table_name from information_schema.columns
    where table_schema = 'projectionist' and column_name = 'consumer' and data_type = 'integer'
    and table_name not in ('retired_consumers', 'own_names', 'archive', 'quarantine_seen', 'parked_seen') order by 1"""


async def left(live: ConsumerHarness, number: int) -> dict[str, int]:
    """How many rows of a consumer each table has, where there are any."""
    tables = [name for (name,) in await live.fetch(KNOWN)]
    rows = "select count(*) from {s}.%s where consumer = $1"
    counts = {name: await live.value(rows % name, number) for name in tables}
    return {name: count for name, count in counts.items() if count}


async def test_a_retired_consumer_is_gone_and_its_names_stay_reserved(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders, s.Spend)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(5), "o1", 2)
    await live.publish(OrderPaid(5), "o2", 2)
    await live.publish_raw(b"x", {"ce-id": "torn"}, "o3")
    await live.settle(s.Orders, s.Spend)
    await sent(live)
    live.tampered = True
    number, durable = (await inspection.rows(live, "consumers", "number", "durable", name="Orders"))[0]
    other = await left(live, number + 1)
    assert "Its names stay reserved" in (await cli.run("retire", "Orders", *WHY)).out
    assert await live.value(TABLES) == 2

    done = await cli.seen("retire", "Orders", "--yes", *WHY)
    assert (done["inbox"], done["parked"], done["quarantined"], done["intents"]) == (3, 1, 1, 1)
    assert await live.value(TABLES) == 0
    assert await left(live, number) == {}
    assert await left(live, number + 1) == other
    names = [one.name for one in await live.nats.jetstream().consumers_info(live.stream.name)]
    assert durable not in names
    [act] = (await cli.seen("audit", "--action", "retire"))["acts"]
    assert (act["who"], act["reason"], act["detail"]["inbox"]) == ("ann", "replaced", 3)
    assert [one["name"] for one in (await cli.seen("status"))["consumers"]] == ["Spend"]

    with pytest.raises(ReadModelError, match="was retired by ann"):
        await live.migrate(s.Orders)
    with pytest.raises(ReadModelError, match="orders"):
        await live.migrate(renamed(live))
    assert "there is no consumer 'Orders'" in await cli.refused("retire", "Orders", "--yes", *WHY)


def renamed(live: ConsumerHarness) -> type:
    """Another consumer that wants the same table."""

    class Others(
        OrderRow,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
    ):
        pass

    return Others


async def test_what_is_in_use_or_not_settled_is_not_retired(live: ConsumerHarness, cli: Cli) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(5), "o1", 2)
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        assert "processes run Orders" in await cli.refused("retire", "Orders", "--yes", *WHY)
    assert "1 intents of Orders are not settled" in await cli.refused("retire", "Orders", "--yes", *WHY)
    await sent(live)
    await live.pool.execute("create view mine as select * from orders")
    assert "view public.mine depends on public.orders" in await cli.refused("retire", "Orders", "--yes", *WHY)
    assert len(await live.rows("orders")) == 1
    await live.settle(s.Orders)


async def test_kept_generations_go_too(rebuilds: RebuildHarness, tmp_path: Path) -> None:
    harness = rebuilds.harness
    cli, s = Cli(harness, tmp_path), shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 5), "o1", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    assert await harness.value(TABLES) == 3
    await cli.done("retire", "Orders", "--yes", *WHY)
    assert await harness.value(TABLES) == 0
    harness.tampered = True
