"""The code of the page about publishing, as it stands there, on real servers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from tests.support.app_waiter import waiting
from tests.support.consumer_harness import ConsumerHarness
from tests.support.outbox import outbox
from tests.support.process import ROOT
from tests.support.recording import relaying_streams
from tests.support.servers import Stream
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.asyncio

PAGE = ROOT / "docs" / "guide" / "publish-events.md"


def blocks(language: str) -> list[str]:
    """The blocks of this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest_asyncio.fixture
async def page(live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's code defines, its app on the servers of this test."""
    names: dict[str, Any] = {"__name__": "publish_guide"}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - our own documentation
    app = names["app"]
    monkeypatch.setattr(app, "_settings", live.settings)
    monkeypatch.setattr(app, "wait_for", partial(app.wait_for, timeout_s=HANG_S))
    waiting(app, live.settings)
    return names


@pytest_asyncio.fixture
async def orders(live: ConsumerHarness, page: dict[str, Any]) -> AsyncIterator[Stream]:
    """The stream that the page declares."""
    jetstream, declared = live.nats.jetstream(), page["orders"]
    await jetstream.add_stream(name=declared.name, subjects=list(declared.filters))
    yield Stream(declared.name)
    await jetstream.delete_stream(declared.name)


@pytest.mark.usefixtures("orders")
async def test_the_pages_code_records_publishes_waits_and_tells_a_conflict(
    live: ConsumerHarness, page: dict[str, Any]
) -> None:
    live.tampered = True  # the harness's own stream is not the page's
    await live.migrate(page["OrderSummary"])
    connection = await asyncpg.connect(live.database)
    try:
        await connection.execute("create table orders (id text primary key, status text)")
        async with (
            outbox(live.database) as harness,
            relaying_streams(harness, live.nats, page["orders"].name),
            live.running(page["OrderSummary"]),
        ):
            placed = await page["place"](connection, "7", "ann")
            assert (placed.version, placed.id) == (1, "order/7:1")
            assert await page["pay"](connection, "7", 250, 1) == "version 2, applied"
            assert await page["pay"](connection, "7", 250, 1) == "somebody else was first: version 2 by now"
            assert await live.rows("order_summary") == [("7", "ann", 250)]
            published = await page["publish"]("8", "bob")
            assert (await page["app"].wait_for(page["OrderSummary"], published, timeout_s=HANG_S)).is_applied
        (takeover,) = blocks("sql")
        await connection.execute(takeover.replace("order/7", "order/9"))
        async with connection.transaction():
            recorder = page["app"].outbox(connection)
            taken = await recorder.record("order/9", page["OrderPaid"](cents=1), expected_version=41)
        assert taken.version == 42
    finally:
        await connection.close()
