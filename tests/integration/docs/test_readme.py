"""The code of the README, as it stands there: what it publishes, it consumes, and reads."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import asyncpg
import msgspec
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import ROOT
from tests.support.waiting import HANG_S

from projectionist.core.settings.settings import Settings
from projectionist.runner.process.migrate_streams import migrate_streams

pytestmark = pytest.mark.asyncio

README = (ROOT / "README.md").read_text("utf-8")


def unmonitored(settings: Settings) -> Settings:
    return msgspec.structs.replace(
        settings, telemetry=msgspec.structs.replace(settings.telemetry, allow_unmonitored=True)
    )


async def test_an_order_is_paid_and_read(live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    live.tampered = True  # the harness's own stream is not the page's
    names: dict[str, Any] = {"__name__": "readme"}
    [code] = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own documentation
    app, settings = names["app"], unmonitored(live.settings)
    monkeypatch.setattr(app, "_settings", settings)
    monkeypatch.setattr(app, "wait_for", partial(app.wait_for, timeout_s=HANG_S))
    await migrate_streams(settings, app.streams, app.definitions, apply=True)
    connection = await asyncpg.connect(live.database)
    try:
        await connection.execute("create table orders (id text primary key, paid bool not null)")
        await connection.execute("insert into orders values ('o-1', false)")
        async with app.running(migrate=True):
            async with connection.transaction():
                placed = names["OrderPlaced"](email="ann@example.org", total_cents=4200)
                await app.outbox(connection).record("order/o-1", placed, expected_version=0)
            row = await names["pay"](connection, "o-1", 1)
        assert row == names["OrderSummary"]("o-1", "ann@example.org", 4200, "paid")
        assert await connection.fetchval("select paid from orders")
    finally:
        await connection.close()
        await live.nats.jetstream().delete_stream("ORDERS")


async def test_the_page_is_short() -> None:
    assert len(README.splitlines()) < 150
