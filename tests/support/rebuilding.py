"""Builders on a rig, and what a test looks at to see that they were silent and right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from tests.support.lab import SCHEMA
from tests.support.rig import Rig

from projectionist.core import broker
from projectionist.projections import definition
from projectionist.runner.rebuild.builder import Builder, Options, Rebuilt
from projectionist.runner.rebuild.progress import Logged


class Effects(msgspec.Struct, frozen=True):
    """Everything a silent path must leave as it is."""

    intents: list[tuple[Any, ...]]
    inbox: list[tuple[Any, ...]]
    positions: list[tuple[Any, ...]]
    parked: list[tuple[Any, ...]]


class Yard:
    """A rig, and builders on it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    async def rebuild(self, cls: type, **options: Any) -> Rebuilt:
        """Rebuild a consumer to its end."""
        client = await broker.connect(self.rig.settings.nats, name="builder")
        try:
            name = definition(cls).name
            return await Builder(
                definition(cls), self.rig.settings, client, Logged(name), Options(**options)
            ).run()
        finally:
            await client.close()

    async def effects(self) -> Effects:
        """The outbox and the journal, as they stand."""
        fetch = self.rig.fetch
        return Effects(
            await fetch("select * from {s}.intents order by seq"),
            await fetch("select * from {s}.inbox order by consumer, source, id"),
            await fetch("select * from {s}.positions order by consumer, aggregate"),
            await fetch("select * from {s}.parked order by consumer, source, id"),
        )

    async def generation(self, cls: type) -> int:
        """The live generation."""
        found: int = await self.rig.value(
            "select generation from {s}.consumers where name = $1", definition(cls).name
        )
        return found

    async def tables(self) -> list[str]:
        """Every generation's table there is."""
        rows = await self.rig.fetch(
            "select tablename::text from pg_tables where schemaname = $1 and tablename ~ '__g[0-9]+$' order by 1",
            SCHEMA,
        )
        return [name for (name,) in rows]


SHOP_APP = """
from tests.support.lab import Stream
from tests.support.shop import shop
from projectionist.runner import App

made = shop(Stream({name!r}))
app = App(projections=[made.Orders, made.Spend])
"""


def shop_app(folder: Path, rig: Rig) -> dict[str, str]:
    """Write the shop as an app `orders:app` for the real command line; the environment it runs in."""
    (folder / "orders.py").write_text(SHOP_APP.format(name=rig.stream.name))
    return {
        "PROJECTIONIST_POSTGRES__URL": rig.database,
        "PROJECTIONIST_NATS__URL": rig.lab.nats_url,
        "PROJECTIONIST_RUN__HEARTBEAT_S": "0.2",
    }
