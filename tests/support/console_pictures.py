"""Writes the pictures of the guide, by `make pictures`: the played shop with trouble in it, on a desk and a phone."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page
from tests.support.chromium import chromium
from tests.support.console_visitor import DESK, PHONE
from tests.support.waiting import eventually

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
LINK = re.compile(rb"http://\S+/login\?link=\S+")


async def main() -> None:
    """Play the demo, look at each screen, and end it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "projectionist.ops", "demo", "--orders", "200", "--console"),
            *("--listen", "127.0.0.1:8719"),
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            while (found := LINK.search(await process.stdout.readline())) is None:
                assert process.returncode is None
            await _look(found[0].decode())
        finally:
            process.send_signal(signal.SIGINT)
            await process.wait()


async def _look(link: str) -> None:
    root = link.partition("/login")[0]
    async with chromium() as browser:
        page = await browser.new_page(viewport=DESK, color_scheme="light", reduced_motion="reduce")
        await page.goto(link)
        await page.screenshot(path=FOLDER / "login.png")
        await page.get_by_label("Name").fill("ann")
        await page.get_by_role("button", name="Log in").click()
        await eventually(lambda: _has_trouble(page, root))
        await eventually(lambda: _has_counted(page, root))
        for name, path in SCREENS.items():
            await _picture(page, root + path, f"{name}.png")
        await page.emulate_media(color_scheme="dark")
        await _picture(page, root, "overview-dark.png")
        await page.emulate_media(color_scheme="light")
        await _rebuild(page, root)
        await _picture(page, f"{root}/operations", "operations.png")
        await page.set_viewport_size(PHONE)
        for name in ON_A_PHONE:
            await _picture(page, root + SCREENS[name], f"{name}-phone.png")


async def _has_trouble(page: Page, root: str) -> bool:
    """Return whether all is there that the guide mends, and each consumer runs."""
    await page.goto(f"{root}/")
    said = await page.locator("main").inner_text()
    return "no process runs it" not in said and "dead" in said and "waiting" in said


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


async def _picture(page: Page, address: str, name: str) -> None:
    await page.goto(address)
    await page.screenshot(path=FOLDER / name)


if __name__ == "__main__":
    asyncio.run(main())
