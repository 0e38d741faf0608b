"""Somebody who looks at a console with a real browser, and writes down whatever the browser complains of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.resources import files
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize
from tests.support.chromium import HANG_MS
from tests.support.console_client import Served

from projectionist.console.access.sessions import Role

DESK: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 320, "height": 640}
AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
REPORTS = (
    "window.reports = []; addEventListener('securitypolicyviolation', e => reports.push(e.violatedDirective))"
)
VIOLATIONS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
    one => [one.id, one.nodes.map(node => node.html + " " + node.failureSummary).join("; ")])"""
CUT_OFF = """() => {
    const found = [], sideways = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (sideways > 0) found.push(`the page scrolls ${sideways} px sideways`);
    const told = node => `${node.nodeName} ${node.className} "${node.textContent.trim().slice(0, 40)}"`;
    for (const one of document.querySelectorAll("main *, header.bar *")) {
        const box = one.getBoundingClientRect(), head = one.closest("thead");
        if (!box.width || one.closest(".hidden, svg, [hidden]")) continue;
        if (head && getComputedStyle(head).position === "absolute") continue;
        for (let around = one.parentElement; around && around.tagName !== "BODY"; around = around.parentElement) {
            const of = getComputedStyle(around), edge = around.getBoundingClientRect();
            if (of.overflowX === "auto" || of.overflowX === "scroll" || around.matches(".cut")) break;
            if (of.overflowX !== "visible" && box.right > edge.right + 1) {
                found.push(`${told(one)} is cut off by ${told(around)}`);
                break;
            }
            if (around.matches(".section, .columns > *, .page") && box.right > edge.right + 9) {
                found.push(`${told(one)} runs ${Math.round(box.right - edge.right)} px out of ${told(around)}`);
                break;
            }
        }
        if (one.matches(".grid") && one.closest(".scroll") && one.offsetWidth > one.closest(".scroll").clientWidth + 16)
            found.push(`${told(one)} has to be scrolled`);
    }
    return found.slice(0, 5);
}"""
"""What runs out of the page, or of the section it stands in; a table reaches over by its padding, and a picture of the
map, a stack and text that ends in dots, whole in their title, may be longer than their place."""


class Visitor:
    """One person at one browser."""

    def __init__(self, served: Served, page: Page) -> None:
        self.served, self.page = served, page
        self.complaints: list[str] = []
        """What the browser has refused or stumbled over, but for pages that answer with a status of failure."""
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))

    def _hear(self, message: ConsoleMessage) -> None:
        if (
            message.type in ("error", "warning")
            and "the server responded with a status of" not in message.text
        ):
            self.complaints.append(message.text)

    async def go(self, path: str) -> None:
        """Open a page by its address."""
        await self.page.goto(self.served.url + path)

    async def follow(self, name: str) -> None:
        """Click a link."""
        await self.page.get_by_role("link", name=name).first.click()

    async def turn_to(self, entry: str) -> None:
        """Click an entry of the menu, which has to be opened on a phone."""
        menu = self.page.get_by_role("button", name="Menu")
        if await menu.is_visible():
            await menu.click()
        await self.page.get_by_role("navigation", name="Console").get_by_role("link", name=entry).click()

    async def press(self, name: str) -> None:
        """Click a button."""
        await self.page.get_by_role("button", name=name).first.click()

    async def write(self, label: str, text: str) -> None:
        """Fill a field in."""
        await self.page.get_by_label(label, exact=True).fill(text)

    async def said(self) -> str:
        """Return what the page says."""
        return await self.page.locator("body").inner_text()

    async def flaws(self) -> list[Any]:
        """Return what axe finds wrong, what the policy of the page has refused, and what is cut off."""
        reports: list[str] = await self.page.evaluate("window.reports")
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(AXE)
        found: list[Any] = await self.page.evaluate(VIOLATIONS)
        return [*found, *reports, *await self.cut_off()]

    async def cut_off(self) -> list[str]:
        """Return what does not fit at the width of this browser."""
        found: list[str] = await self.page.evaluate(CUT_OFF)
        return found


class Visitors:
    """Who looks at a console, each with cookies of their own."""

    def __init__(self, served: Served, browser: Browser, rooms: AsyncExitStack) -> None:
        self._served, self._browser, self._rooms = served, browser, rooms
        self._all: list[Visitor] = []

    async def stranger(self, **options: Any) -> Visitor:
        """Somebody who is not logged in."""
        context = await self._browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce"} | options)
        context.set_default_timeout(HANG_MS)
        await self._rooms.enter_async_context(context)
        return await self._open(context)

    async def logged_in(self, name: str = "ann", role: Role | None = None, **options: Any) -> Visitor:
        """Somebody who has used a link, with a role that others need not have."""
        access = self._served.access
        before, access.role = access.role, role or access.role
        visitor = await self.stranger(**options)
        await visitor.go(f"/login?link={access.new_link()}")
        await visitor.write("Name", name)
        await visitor.press("Log in")
        await visitor.page.get_by_role("heading", name="Overview").wait_for()
        access.role = before
        return visitor

    async def _open(self, context: BrowserContext) -> Visitor:
        await context.add_init_script(REPORTS)
        self._all.append(Visitor(self._served, await context.new_page()))
        return self._all[-1]

    def complaints(self) -> list[str]:
        """Return all that any browser has complained of."""
        return [each for one in self._all for each in one.complaints]


@asynccontextmanager
async def visiting(served: Served, browser: Browser, *, quiet: bool = True) -> AsyncIterator[Visitors]:
    """Let people look at a console; no browser may complain, if `quiet` says so."""
    async with AsyncExitStack() as rooms:
        visitors = Visitors(served, browser, rooms)
        yield visitors
        assert not quiet or visitors.complaints() == []
