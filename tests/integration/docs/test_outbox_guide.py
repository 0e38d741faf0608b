"""The recipe of the guide, as it stands there: what it publishes is applied by consumers that leave all as it is."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import ROOT
from tests.support.servers import Stream
from tests.support.waiting import cancelled, eventually

from projectionist.core.nats import connections
from projectionist.core.settings.settings import Policy, Settings, load
from projectionist.outbox import Intent
from projectionist.outbox.providers import NatsPublish, ProviderContext
from projectionist.outbox.providers.runtime import running
from projectionist.outbox.relay.relay import Relay
from projectionist.projections import Event, Projection, on

pytestmark = pytest.mark.asyncio

PAGE = ROOT / "docs" / "guide" / "outbox.md"


def recipe(name: str) -> str:
    """The block of this language under "Atomic publishing"."""
    text = PAGE.read_text("utf-8").split("## Atomic publishing", 1)[1]
    found = re.search(rf"^```{name}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def settings_of(live: ConsumerHarness, folder: Path) -> Settings:
    """The page's toml on this test's servers and stream."""
    file = folder / "projectionist.toml"
    file.write_text(recipe("toml").replace("shop.order.", live.stream.subject("order", "")), "utf-8")
    env = {"PROJECTIONIST_POSTGRES__URL": live.database, "PROJECTIONIST_NATS__URL": live.servers.nats_url}
    return load(file, env)


class OrderPlaced(Event, type="order.placed"):
    order_id: str
    customer: str


def consumer(stream: Stream) -> type:
    class Placed(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="placed",
        key="order_id",
    ):
        order_id: str
        customer: str = ""

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.customer = event.customer

    return Placed


@asynccontextmanager
async def relaying(live: ConsumerHarness, settings: Settings, providers: dict[str, Any]) -> Any:
    client = await connections.connect(live.settings.nats, name="test relay")

    async def given() -> Any:
        return client

    async with running(providers, settings, ProviderContext(nats=given)) as made:
        relay = Relay(made, settings, ())
        task = asyncio.create_task(relay.run())
        try:
            yield relay
        finally:
            await cancelled(task)
            await relay.close()
            await client.close()


async def test_what_the_recipe_publishes_is_applied_by_a_consumer_of_default_settings(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    page: dict[str, Any] = {"__name__": "page"}
    exec(compile(recipe("python"), str(PAGE), "exec"), page)  # noqa: S102 - our own documentation
    await live.pool.execute("create table orders (id text primary key, customer text)")
    placed = consumer(live.stream)
    await live.migrate(placed)
    async with live.pool.acquire() as connection:
        await page["place"](connection, "o-1", "ann")
    async with (
        relaying(live, settings_of(live, tmp_path), page["providers"]),
        live.running(placed, policy=Policy()),
    ):
        await live.value_of("select count(*) from placed where order_id = 'o-1' and customer = 'ann'", 1)
    assert await live.head(placed, "order/o-1") == (1, "clear", 0)


async def test_an_event_without_a_version_is_dead_before_anybody_reads_it(
    live: ConsumerHarness, tmp_path: Path
) -> None:
    """Without `providers` the outbox cannot know that it is an event; the relay does."""
    page = SimpleNamespace()
    exec(compile(recipe("python"), str(PAGE), "exec"), page.__dict__)  # noqa: S102 - our own documentation
    intent: Intent = page.OrderPlaced(order_id="o-1", customer="ann")
    async with live.pool.acquire() as connection, connection.transaction():
        await page.Outbox("shop-api").add(connection, intent, id="a", aggregate="order/o-1")

    async def dead() -> str:
        return str(
            await live.value("select coalesce(o.error, '') from {s}.outbox o where o.state = 'dead'") or ""
        )

    async with relaying(live, settings_of(live, tmp_path), {"events": NatsPublish}):
        error = await eventually(dead)
    assert "without aggregate and version" in error
    assert "version=3" in error
    assert (await live.nats.jetstream().stream_info(live.stream.name)).state.messages == 0
