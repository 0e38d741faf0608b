"""Each screen in a real Chromium, over what is hostile and secret: nothing runs, nothing shows, all can read it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
import pytest_asyncio
from playwright.async_api import ViewportSize
from tests.support.chromium import chromium
from tests.support.console_client import serving
from tests.support.console_shop import CANARY, HOSTILE, NAMED, READ, indexed, troubled
from tests.support.console_visitor import DESK, PHONE, Visitor, visiting
from tests.support.consumer_harness import ConsumerHarness

from projectionist.runner import App

pytestmark = pytest.mark.asyncio

LOOKS: list[tuple[Literal["light", "dark"], ViewportSize]] = [("light", DESK), ("dark", PHONE)]
ASKED = (
    "/act/pause?consumer=Orders",
    "/act/parked-skip?cause=failed",
    "/act/outbox-retry?key=one",
    "/nothing",
)
SHOWN = [path for path in (*READ, *ASKED) if not path.startswith("/audit.csv")]
BETWEEN = (1280, 1024, 390)
"""Widths between those of `LOOKS` at which a page is laid out otherwise."""


@pytest_asyncio.fixture
async def ann(live: ConsumerHarness) -> AsyncIterator[Visitor]:
    s: Any = await troubled(live)
    async with (
        chromium() as browser,
        serving(App(projections=[s.Orders, s.Spend]), indexed(live.settings)) as served,
        visiting(served, browser) as visitors,
    ):
        yield await visitors.logged_in()


async def test_no_page_has_a_flaw_runs_what_is_hostile_or_holds_a_secret(ann: Visitor) -> None:
    for path in SHOWN:
        await ann.go(path)
        assert CANARY not in await ann.page.content(), path
        for scheme, size in LOOKS:
            await ann.page.emulate_media(color_scheme=scheme)
            await ann.page.set_viewport_size(size)
            assert await ann.flaws() == [], (path, scheme)
        for width in BETWEEN:
            await ann.page.set_viewport_size({"width": width, "height": 800})
            assert await ann.cut_off() == [], (path, width)


async def test_a_table_that_runs_out_of_its_section_is_noticed(ann: Visitor) -> None:
    await ann.go("/consumer?name=Orders")
    assert await ann.cut_off() == []
    await ann.page.evaluate("document.querySelector('.grid th').textContent = 'wide'.repeat(500)")
    assert any("runs" in told for told in await ann.cut_off())
    await ann.page.evaluate("document.querySelector('main').style.overflow = 'hidden'")
    assert any("is cut off" in told or "runs" in told for told in await ann.cut_off())


async def test_a_hostile_name_is_text(ann: Visitor) -> None:
    await ann.go(f"/journey?id={NAMED}")
    assert await ann.page.get_by_role("heading", level=1).inner_text() == HOSTILE
    assert await ann.page.locator("img, main script").count() == 0
