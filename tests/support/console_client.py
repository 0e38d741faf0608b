"""The console behind a real uvicorn, and browsers without JavaScript that use it."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from html import unescape
from typing import Any

import httpx
import msgspec
import uvicorn
from tests.support.consumer_harness import ConsumerHarness
from tests.support.gateway import Gateway
from tests.support.waiting import HANG_S

from projectionist import console
from projectionist.console.access.sessions import Access, Role
from projectionist.core import clock
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Settings
from projectionist.runner import App

FORM = {"content-type": "application/x-www-form-urlencoded"}
TOKEN = re.compile(r'<input type="hidden" name="token" value="([^"]+)">')
FIELDS = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


class Browser:
    """Somebody with cookies, who fills in forms as pages show them."""

    def __init__(self, url: str, **headers: str) -> None:
        self.url = url
        self.http = httpx.AsyncClient(base_url=url, follow_redirects=True, timeout=HANG_S, headers=headers)

    async def see(self, path: str, status: int = 200) -> str:
        """Load a page."""
        answer = await self.http.get(path)
        assert answer.status_code == status, f"{path}: {answer.status_code}\n{answer.text}"
        return answer.text

    async def send(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """Send a form, as a browser does from a page of ours."""
        told = {"origin": self.url, "sec-fetch-site": "same-origin"} | FORM | headers
        return await self.http.post(path, data=fields, headers=told)

    async def submit(self, path: str, status: int = 200, **fields: str) -> str:
        """Load a page, fill its form in, send it, and return what follows."""
        hidden = dict(FIELDS.findall(await self.see(path)))
        answer = await self.send(path, hidden | fields)
        assert answer.status_code == status, f"{path}: {answer.status_code}\n{answer.text}"
        return answer.text

    async def token(self) -> str:
        """Return the form token of this login."""
        found = TOKEN.search(await self.see("/audit"))
        assert found is not None
        return found[1]


class Served:
    """A console that runs, and what it has told where it runs."""

    def __init__(self, url: str, access: Access, links: list[str]) -> None:
        self.url, self.access, self.links = url, access, links
        self.browsers: list[Browser] = []

    def browser(self, **headers: str) -> Browser:
        """Somebody who is not logged in."""
        self.browsers.append(Browser(self.url, **headers))
        return self.browsers[-1]

    async def logged_in(self, name: str = "ann", role: Role | None = None) -> Browser:
        """Somebody who has used a link, with a role that others need not have."""
        before, self.access.role = self.access.role, role or self.access.role
        browser, link = self.browser(), self.access.new_link()
        answer = await browser.send("/login", {"link": link, "name": name})
        self.access.role = before
        assert answer.status_code == 200, answer.text
        return browser


@asynccontextmanager
async def serving(
    target: App, settings: Settings, *, now: Callable[[], float] = clock.now, **options: Any
) -> AsyncIterator[Served]:
    """Serve the console of an app."""
    access, links = Access(now=now), list[str]()
    made = console.app(target, settings=settings, access=access, actor="ann", tell=links.append, **options)
    async with listening(made) as url:
        served = Served(url, access, links)
        try:
            yield served
        finally:
            for browser in served.browsers:
                await browser.http.aclose()


@asynccontextmanager
async def listening(made: Any) -> AsyncIterator[str]:
    """Serve an ASGI application by uvicorn, at a port of its own."""
    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(made, lifespan="off", access_log=False, log_config=None, proxy_headers=False)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


def behind(live: ConsumerHarness, gate: Gateway) -> Settings:
    """Return the settings of a console that reaches PostgreSQL through this gateway."""
    postgres = msgspec.structs.replace(live.settings.postgres, url=Url(gate.url))
    return msgspec.structs.replace(live.settings, postgres=postgres)


def text_of(page: str) -> str:
    """Return what a page says, without its tags."""
    body = page.partition("<main")[2].partition(">")[2]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", body)))
