"""What every page shares: the servers, the snapshot, who looks, and how an answer is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import HTMLResponse, RedirectResponse, Response

from projectionist.console.access.request_guard import is_refresh, own_path
from projectionist.console.console_database import ConsoleDatabase
from projectionist.console.live_regions import EVERY_S, LIVE, SELDOM_S, SHARED_S, Contents, SharedReads
from projectionist.console.needs import counts
from projectionist.console.pages import environment
from projectionist.console.snapshot import Onlooker
from projectionist.core.operator import Act
from projectionist.ops.cli.database import database
from projectionist.ops.doctor.check import Level
from projectionist.ops.doctor.examine import Examined, examine

if TYPE_CHECKING:
    from starlette.requests import Request

    from projectionist.console.access.sessions import Access, ConsoleSession
    from projectionist.console.background_work import BackgroundWorks
    from projectionist.console.kept_connections import KeptConnections
    from projectionist.console.snapshot import Snapshot
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Settings
    from projectionist.runner.app import App

MOST_READS = 8
"""So many pages read the database at once; others wait for them."""


class ConsoleContext:
    """One console: an app, its servers, and who is logged in."""

    def __init__(
        self,
        target: App,
        name: str,
        settings: Settings,
        access: Access,
        onlooker: Onlooker,
        kept: KeptConnections,
        works: BackgroundWorks,
    ) -> None:
        self.app, self.name, self.settings, self.access, self.onlooker = (
            target,
            name,
            settings,
            access,
            onlooker,
        )
        self.works, self._kept = works, kept
        self._templates = environment()
        self._readings = SharedReads()
        self._reads = asyncio.Semaphore(MOST_READS)
        self._examined: tuple[datetime, Examined] | None = None
        self._examining = asyncio.Lock()

    @asynccontextmanager
    async def database(self) -> AsyncIterator[ConsoleDatabase]:
        """Connect for one page that may change something."""
        async with self._reads, database("console", self.settings) as opened:
            yield self._database(opened.connection)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[ConsoleDatabase]:
        """Lend a page that only reads a connection that was kept."""
        async with self._reads, self._kept.reading() as connection:
            yield self._database(connection)

    def _database(self, connection: Connection) -> ConsoleDatabase:
        return ConsoleDatabase(self.settings, connection, self.app, self.name, self.works)

    async def doctor(self, *, again: bool = False, oldest_s: float = 300) -> tuple[datetime, Examined]:
        """Return what the doctor has found lately; look now if that is too long ago, or `again`."""
        async with self._examining:
            last, now = self._examined, datetime.now(UTC)
            if again or last is None or (now - last[0]).total_seconds() > oldest_s:
                found = await examine(self.app, self.app.definitions, self.settings)
                self._examined = last = (datetime.now(UTC), found)
            return last

    @property
    def doctor_waits(self) -> int:
        """Return how much the doctor has found to act on, as far as it was asked."""
        checks = self._examined[1].checks if self._examined else ()
        return sum(check.level == Level.ATTENTION for check in checks)

    async def look(self, request: Request) -> Snapshot:
        """Return the snapshot for a page: for one that is open and asks by itself that of its last round will do."""
        return await self.onlooker.look(SHARED_S if is_refresh(request.headers) else None)

    async def page(
        self, request: Request, template: str, here: str, *, status: int = 200, **values: Any
    ) -> Response:
        """Render a page of somebody who is logged in, with navigation and what is wrong with the servers."""
        session, asks_itself = session_of(request), is_refresh(request.headers)
        if (read := getattr(request.state, "read", None)) is not None:
            read.update({"template": template, "here": here, "status": status, **values})
            return Response()
        seen = await self.look(request)
        as_of = min(seen.at, values.pop("read_at", seen.at))
        frame = {
            "here": here,
            "name": self.name,
            "seen": seen,
            "as_of": as_of,
            "counts": counts(seen.status),
            "doctor_waits": self.doctor_waits,
            "person": session.person,
            "token": session.form_token,
            "notice": "" if asks_itself else session.take_notice(),
            "address": address_of(request),
            "lives": request.method == "GET" and own_path(request.scope) in LIVE,
            "every_s": EVERY_S,
        }
        return HTMLResponse(self.render(request, template, **frame | values), status_code=status)

    async def refreshed(
        self, request: Request, handler: Callable[[ConsoleContext, Request], Awaitable[Response]]
    ) -> Response:
        """Answer a page that is open and asks again, with what others who look at it have just been shown."""

        async def anew() -> Contents:
            contents: dict[str, Any] = {"read_at": datetime.now(UTC)}
            request.state.read = contents  # what would be shown is kept, and rendered for each who asks
            try:
                await handler(self, request)
            finally:
                request.state.read = None
            return contents

        key = (address_of(request), session_of(request).person.role)
        every_s = SELDOM_S.get(own_path(request.scope))
        return await self.page(request, **await self._readings.read(key, anew, every_s))

    def render(self, request: Request, template: str, **values: Any) -> str:
        """Return a page; `at` makes the address of another one, wherever the console is mounted."""
        root = str(request.scope.get("root_path", ""))

        def at(path: str, **query: object) -> str:
            told = urlencode({name: value for name, value in query.items() if value is not None})
            return f"{root}{path}{'?' if told else ''}{told}"

        return self._templates.get_template(template).render(at=at, **values)


def address_of(request: Request) -> str:
    """Return path and query of a request, wherever the console is mounted; never what leads to another host. Pure."""
    path = f"/{request.url.path.lstrip('/')}"
    return f"{path}?{request.url.query}" if request.url.query else path


def session_of(request: Request) -> ConsoleSession:
    """Return the session that the guard has found: no page is reached without one."""
    session: ConsoleSession = request.state.session
    return session


def form_of(request: Request) -> Mapping[str, str]:
    """Return the fields that were sent."""
    form: Mapping[str, str] = request.state.form
    return form


def act_of(request: Request) -> Act:
    """Return who acts, and the reason of the form; NotThere without one."""
    return Act(session_of(request).person.name, form_of(request).get("reason", ""))


def go_to(request: Request, path: str) -> Response:
    """Send the browser on to one of our pages."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}{path}", status_code=303)
