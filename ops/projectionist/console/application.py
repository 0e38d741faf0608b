"""The console as an ASGI application: each address, who may ask for it, and what answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
from starlette.applications import Starlette
from starlette.responses import FileResponse
from starlette.routing import Route

from projectionist.console.access.request_guard import LOOPBACK, Identify, RequestGuard, is_refresh
from projectionist.console.access.sessions import Access, Role
from projectionist.console.background_work import BackgroundWorks
from projectionist.console.console_context import ConsoleContext, session_of
from projectionist.console.kept_connections import KeptConnections
from projectionist.console.live_regions import FRAME, LIVE
from projectionist.console.pages import STATIC
from projectionist.console.screens import (
    acting,
    app_map,
    audit,
    consumers,
    doctor,
    incidents,
    journeys,
    operations,
    outbox,
    overview,
    previews,
    quarantine,
    rebuilds,
    rows,
    streams,
    waiting,
)
from projectionist.console.screens.acting import NotAllowed
from projectionist.console.screens.login import LoginPages
from projectionist.console.snapshot import AWAY, Onlooker
from projectionist.core.errors import ProjectionistError
from projectionist.core.operator import NotThere
from projectionist.core.postgres.rights import Duty, refusal
from projectionist.core.settings.settings import settings as found_settings
from projectionist.outbox.admin.intent_actions import IntentNotFound
from projectionist.runner.admin.reset import CannotReset
from projectionist.runner.consumers.registry import NotRegistered
from projectionist.runner.database.queries import RebuildError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from projectionist.core.settings.settings import Settings
    from projectionist.runner.app import App

log = logging.getLogger("projectionist.console")

Handler = Callable[[ConsoleContext, "Request"], Awaitable["Response"]]


class Address(NamedTuple):
    """One address of the console."""

    method: str
    path: str
    handler: Handler
    role: Role | None = Role.VIEW
    """None: open to whoever is not logged in."""


FILES = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "htmx/htmx.min.js": "text/javascript",
}
ADDRESSES = (
    Address("GET", "/", overview.show),
    Address("GET", FRAME, overview.frame),
    Address("GET", "/consumer", consumers.show),
    Address("GET", "/waiting", waiting.show),
    Address("GET", "/waiting/group", waiting.group),
    Address("GET", "/waiting/event", waiting.event),
    Address("POST", "/waiting/event", waiting.event, Role.OPERATE),
    Address("GET", "/quarantine", quarantine.show),
    Address("GET", "/quarantine/group", quarantine.group),
    Address("GET", "/quarantine/entry", quarantine.entry),
    Address("POST", "/quarantine/entry", quarantine.entry, Role.OPERATE),
    Address("GET", "/outbox", outbox.show),
    Address("GET", "/outbox/group", outbox.group),
    Address("GET", "/outbox/intent", outbox.intent),
    Address("POST", "/outbox/intent", outbox.intent, Role.OPERATE),
    Address("GET", "/journey", journeys.show),
    Address("POST", "/journey", journeys.show, Role.OPERATE),
    Address("GET", "/flow", journeys.flow),
    Address("GET", "/aggregate", journeys.aggregate),
    Address("GET", "/row", rows.show, Role.OPERATE),
    Address("POST", "/row", rows.show, Role.OPERATE),
    Address("GET", "/search", journeys.search),
    Address("GET", "/incidents", incidents.show),
    Address("GET", "/operations", operations.show),
    Address("GET", "/operation", operations.one),
    Address("GET", "/audit", audit.show),
    Address("GET", "/audit.csv", audit.export),
    Address("GET", "/doctor", doctor.show),
    Address("POST", "/doctor", doctor.look_again),
    Address("GET", "/streams", streams.show),
    Address("GET", "/map", app_map.show),
    Address("GET", "/preview", previews.show),
    Address("POST", "/preview", previews.show, Role.OPERATE),
    Address("GET", "/rebuilds", rebuilds.show),
    Address("GET", "/rebuild", rebuilds.one),
    Address("POST", "/rebuild", rebuilds.one, Role.OPERATE),
    Address("GET", "/act/{verb}", acting.ask, Role.OPERATE),
    Address("POST", "/act/{verb}", acting.do, Role.OPERATE),
)


def app(
    target: App,
    *,
    name: str = "app",
    settings: Settings | None = None,
    access: Access | None = None,
    actor: str = "",
    tell: Callable[[str], None] | None = None,
    hosts: Sequence[str] = LOOPBACK,
    identify: Identify | None = None,
    works: BackgroundWorks | None = None,
) -> ASGIApp:
    """Return the console of an app, to be served or mounted; without `tell` and `identify` nobody gets in.

    `tell` is given each new login link: it writes it where only those who may log in read it. `identify` says by a
    request's headers who sends it; whatever makes these headers has to stand in front, and to remove what others
    have written there. `hosts`: the names under which it is served. `works` keeps what goes on beside its pages, for
    whoever ends the process: its `stop` has all of it end.
    """
    known = access or Access()
    found = settings or found_settings()
    kept, works = KeptConnections(found.postgres), works or BackgroundWorks()
    context = ConsoleContext(target, name, found, known, Onlooker(found, kept), kept, works)
    login = LoginPages(context, actor, tell)
    addresses = (
        *ADDRESSES,
        Address("GET", "/login", login.show, None),
        Address("POST", "/login", login.log_in, None),
        Address("POST", "/login/link", login.new_link, None),
        Address("POST", "/logout", login.log_out),
    )
    routes = [Route(one.path, _answering(context, one), methods=[one.method]) for one in addresses]
    routes += [Route(f"/static/{name}", _file(name)) for name in FILES]
    nowhere = Address("GET", "/{path:path}", _nowhere)
    routes.append(Route(nowhere.path, _answering(context, nowhere), methods=[nowhere.method]))
    return RequestGuard(
        Starlette(routes=routes),
        access=known,
        login=login.needed,
        outdated=login.outdated,
        hosts=hosts,
        identify=identify,
    )


def _answering(context: ConsoleContext, address: Address) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that lets nobody in who may not, and turns what is refused into a page."""

    async def answer(request: Request) -> Response:
        try:
            if address.role is not None:
                role = session_of(request).person.role
                if not role.may(address.role):
                    needs = f"this needs the role {address.role}, and yours is {role}"
                    raise NotAllowed(needs, remedy="Ask somebody who has it")
            if address.method == "GET" and address.path in LIVE and is_refresh(request.headers):
                return await context.refreshed(request, address.handler)
            return await address.handler(context, request)
        except NotAllowed as refused:
            return await _told(context, request, 403, "You may not do this", refused)
        except (NotThere, NotRegistered, IntentNotFound) as refused:
            return await _told(context, request, 404, "There is nothing here", refused)
        except (RebuildError, CannotReset) as refused:
            return await _told(context, request, 409, "This cannot be done now", refused)
        except asyncpg.InsufficientPrivilegeError as error:
            return await _told(
                context, request, 403, "The console may not do this", await _refusal(context, error)
            )
        except AWAY as error:
            log.warning("the console could not read: %s", type(error).__name__)
            return await _told(context, request, 503, "This cannot be shown now", error)

    return answer


async def _refusal(context: ConsoleContext, error: asyncpg.InsufficientPrivilegeError) -> BaseException:
    """Return which right the console's role of the database lacks, as far as it can be told."""
    async with context.database() as db:
        return await refusal(db.connection, db.schema, error, Duty.OPERATOR) or error


async def _told(
    context: ConsoleContext, request: Request, status: int, title: str, error: BaseException
) -> Response:
    """Say what happened, and what to do, on a page."""
    told = error.message if isinstance(error, ProjectionistError) else str(error) or type(error).__name__
    remedy = error.remedy if isinstance(error, ProjectionistError) else ""
    return await context.page(
        request, "problem.html", "", status=status, title=title, told=told, remedy=remedy
    )


async def _nowhere(_: ConsoleContext, request: Request) -> Response:
    raise NotThere(
        f"no page has the address {request.url.path}", remedy="Go on by the navigation, or find it"
    )


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers with a file, for good: its address changes with it."""
    headers = {"cache-control": "private, max-age=31536000, immutable"}

    async def answer(_: Request) -> Response:
        return FileResponse(STATIC / name, media_type=FILES[name], headers=headers)

    return answer
