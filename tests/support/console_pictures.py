"""Takes a picture of each screen over the played shop with trouble in it; `make pictures` those of the guide."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page
from tests.support.chromium import HANG_MS, chromium
from tests.support.console_visitor import DESK, PHONE
from tests.support.waiting import HANG_S, eventually

from projectionist.ops.embedded.processes import free_port

FOLDER = Path(__file__).parents[2] / "docs" / "images" / "console"
SCREENS = {
    "overview": "/",
    "consumer": "/consumer?name=OrderSummary",
    "waiting": "/waiting",
    "group": "/waiting/group?cause=failed",
    "event": "/waiting/event?id=order-order-poison-2",
    "edit": "/act/parked-edit?consumer=OrderSummary&source=shop&id=order-order-poison-2",
    "quarantine": "/quarantine",
    "outbox": "/outbox",
    "incidents": "/incidents",
    "journey": "/journey?id=order-order-poison-2",
    "flow": "/flow?correlation=checkout-order-poison",
    "aggregate": "/aggregate?name=order%2Forder-gap",
    "row": "/row?consumer=OrderSummary&key=order-mail",
    "search": "/search",
    "streams": "/streams",
    "map": "/map",
    "preview": "/preview",
    "rebuilds": "/rebuilds",
    "rebuild": "/rebuild?consumer=OrderSummary",
    "doctor": "/doctor",
    "audit": "/audit",
}
ON_A_PHONE = ("overview", "waiting", "event")
FOLLOWED = {
    "intent": "/outbox/group?state=dead",
    "entry": "/quarantine/group?cause=version",
}
"""Screens of one thing, and the list in which it comes first."""
LINK = re.compile(rb"http://\S+/login\?link=\S+")


async def take(folder: Path, *, orders: int, whole_minute: bool, **env: str) -> int:
    """Play the demo, take a picture of each screen, end it, and return what it has ended with.

    `whole_minute`: wait until what has failed is drawn, which is when its minute is over.
    """
    with tempfile.TemporaryDirectory() as around:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "projectionist.ops", "demo", "--orders", str(orders), "--console"),
            *("--listen", f"127.0.0.1:{free_port()}"),
            cwd=around,
            env={**os.environ, **env},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(HANG_S):
                while (found := LINK.search(await process.stdout.readline())) is None:
                    assert process.returncode is None
            await _look(found[0].decode(), folder, whole_minute=whole_minute)
        finally:
            process.send_signal(signal.SIGINT)
            code = await process.wait()
    return code


async def _look(link: str, folder: Path, *, whole_minute: bool) -> None:
    root = link.partition("/login")[0]
    async with chromium() as browser:
        page = await browser.new_page(viewport=DESK, color_scheme="light", reduced_motion="reduce")
        page.set_default_timeout(HANG_MS)

        async def picture(name: str, path: str = "") -> None:
            if path:
                await page.goto(root + path)
            await page.screenshot(path=folder / f"{name}.png")

        await page.goto(link)
        await picture("login")
        await page.get_by_label("Name").fill("ann")
        await page.get_by_role("button", name="Log in").click()
        await eventually(lambda: _has_trouble(page, root))
        if whole_minute:
            await eventually(lambda: _has_counted(page, root))
        for name, path in SCREENS.items():
            await picture(name, path)
        for name, path in FOLLOWED.items():
            await page.goto(root + path)
            there = await page.locator(".grid .open").first.get_attribute("href")
            await picture(name, there or "")
        await page.emulate_media(color_scheme="dark")
        await picture("overview-dark", "/")
        await page.emulate_media(color_scheme="light")
        await _rebuild(page, root)
        await picture("operations", "/operations")
        await picture("operation", "/operation?number=1")
        await page.set_viewport_size(PHONE)
        for name in ON_A_PHONE:
            await picture(f"{name}-phone", SCREENS[name])


async def _has_trouble(page: Page, root: str) -> bool:
    """Return whether all is there that the guide mends, and each consumer runs."""
    await page.goto(f"{root}/")
    said = await page.locator("main").inner_text()
    await page.goto(root + SCREENS["aggregate"])
    searched = "Accept the gap" in await page.locator("main").inner_text()
    return searched and "no process runs it" not in said and "dead" in said and "waiting" in said


async def _has_counted(page: Page, root: str) -> bool:
    """Return whether the minute is over in which something has failed: then it is drawn."""
    await page.goto(root + SCREENS["consumer"])
    return await page.locator(".chart .bars").count() > 0


async def _rebuild(page: Page, root: str) -> None:
    """Have an operation be there to be seen."""
    await page.goto(f"{root}/act/rebuild?consumer=Inventory")
    await page.locator("[name=reason]").fill("in doubt after the repair of the stock")
    await page.get_by_role("button", name="Rebuild Inventory").click()

    async def done() -> bool:
        await page.goto(f"{root}/operations")
        return (
            await page.get_by_text("1 rebuild").count() > 0 and "No operation goes on" in await page.content()
        )

    await eventually(done)


if __name__ == "__main__":
    asyncio.run(take(FOLDER, orders=200, whole_minute=True))
