"""What a request has to be before any page sees it, and what each answer forbids the browser.

A browser sends requests for whoever's page it shows: a name that leads to this machine (Host), a form on another site
(Origin, Sec-Fetch-Site, the form's token), a frame, an address of a script. Each is refused here, once for all pages.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response

from projectionist.console.access.sessions import Access, ConsoleSession, Person

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MOST_BYTES = 1_100_000
"""A corrected payload fits into a form."""
MOST_FIELDS = MOST_PEOPLE = 1_000
OPEN = ("/login", "/login/link", "/static/console.css")
"""What is answered to whoever is not logged in; everything else is a login page."""
FORBIDS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

Login = Callable[["Scope"], Awaitable[Response]]
Identify = Callable[[Headers], Person | None]
"""Who sends a request, by headers that somebody in front of us has set; None: nobody."""


class RequestGuard:
    """ASGI middleware around all pages; a page finds `session`, `form` and `cookie` in `request.state`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        login: Login,
        outdated: Login,
        hosts: Sequence[str] = LOOPBACK,
        identify: Identify | None = None,
    ) -> None:
        self._app, self._access, self._login, self._outdated = app, access, login, outdated
        self._hosts = {host.lower() for host in hosts}
        self._identify = identify
        self._known: OrderedDict[Person, ConsoleSession] = OrderedDict()
        """Of those whom `identify` names, whoever came last at the end: it says at each request who they are."""
        self._secret = secrets.token_bytes(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, ask for a login, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in FORBIDS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = await self._refusal(scope, receive)
        await (self._app if answer is None else answer)(scope, receive, guarded)

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        headers, method = Headers(scope=scope), scope["method"]
        if hostname(headers.get("host", "")) not in self._hosts:
            return _refused(421, "This console is not served under that name.")
        if method not in ("GET", "HEAD", "POST"):
            return _refused(405, "Pages are read (GET) and forms are sent (POST), nothing else.")
        if b"%00" in scope.get("query_string", b""):
            return _refused(400, "No name holds a NUL character.")
        state = scope.setdefault("state", {})
        state["cookie"] = own_cookie(headers.get("cookie", ""), self._access.cookie)
        state["session"] = session = self._session(headers, state["cookie"])
        state["form"] = {}
        is_open = own_path(scope) in OPEN
        if method == "POST" and (why := _foreign(headers)):
            return _refused(403, why)
        form = await _form(headers, receive) if method == "POST" else {}
        state["form"] = form or {}
        if session is None and not is_open:
            return await self._login(scope)
        if form is None:
            return _refused(413, "The form is too large, or is none.")
        if method != "POST" or session is None or is_open:
            return None
        return None if session.is_form_of_ours(form.get("token", "")) else await self._outdated(scope)

    def _session(self, headers: Headers, cookie: str) -> ConsoleSession | None:
        if self._identify is None:
            return self._access.session(cookie, looks=not is_refresh(headers))
        person = self._identify(headers)
        if person is None:
            return None
        session = self._known.pop(person, None) or ConsoleSession(person, 0.0, self._token_of(person))
        self._known[person] = session
        if len(self._known) > MOST_PEOPLE:
            self._known.popitem(last=False)
        return session

    def _token_of(self, person: Person) -> str:
        """Return the form token of somebody: the same after others had their place here, so no form is lost."""
        whose = f"{person.role}:{person.name}".encode("utf-8", "backslashreplace")
        return hmac.new(self._secret, whose, sha256).hexdigest()


def hostname(host: str) -> str:
    """Return the name of a Host header, without its port. Pure."""
    name = host.strip().lower()
    return name.partition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]


def is_refresh(headers: Headers) -> bool:
    """Return whether an open page asks by itself: nobody has looked, or done anything. Pure."""
    return headers.get("hx-request") == "true"


def own_path(scope: Scope) -> str:
    """Return the path below where the console is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if root else path


def _foreign(headers: Headers) -> str:
    """Return why a form was not sent by a page of ours; "" if it was. Pure."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return "The form comes from another site."
    try:
        origin = urlsplit(headers.get("origin", "")).netloc.lower()
    except ValueError:
        origin = ""
    if not origin or origin != headers.get("host", "").strip().lower():
        return "The form does not say that it comes from here (Origin)."
    return ""


def own_cookie(sent: str, name: str) -> str:
    """Return the value of one cookie; "" without it. Pure.

    A browser sends what every program of this host has set, and one that a strict parser stops at must lock nobody out.
    """
    for one in sent.split(";"):
        key, _, value = one.strip().partition("=")
        if key == name:
            return value
    return ""


async def _form(headers: Headers, receive: Receive) -> dict[str, str] | None:
    """Return the fields of a form; of those that come more than once, one on each line. None: it is none."""
    if headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        return None
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MOST_BYTES or message["type"] == "http.disconnect":
            return None
        if not message.get("more_body", False):
            break
    form: dict[str, str] = {}
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return None
    if any("\0" in value for pair in pairs for value in pair):
        return None
    for name, value in pairs:
        form[name] = f"{form[name]}\n{value}" if name in form else value
    return form


def _refused(status: int, why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=status)
