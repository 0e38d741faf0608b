"""Login: a link that works once, a name for the audit trail, and the way back to the page that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from projectionist.console.access.request_guard import own_path
from projectionist.console.console_context import form_of, go_to
from projectionist.core import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Scope

    from projectionist.console.console_context import ConsoleContext

LINK_EVERY_S = 5.0


def local(path: str) -> str:
    """Return a path of ours to go on with after the login; the overview for anything else. Pure."""
    try:
        parts = urlsplit(path)
    except ValueError:
        return "/"
    ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if ours and not parts.scheme and not parts.netloc and "\\" not in path else "/"


def typed(form: Mapping[str, str]) -> dict[str, str]:
    """Return what somebody has typed into a form that could not be taken, and not what the page had put there. Pure."""
    ours = {"token", "seen", "about", "link", "next", "name"}
    return {name: text for name, text in form.items() if name not in ours and text.strip()}


class LoginPages:
    """What is answered to whoever is not logged in."""

    def __init__(
        self,
        context: ConsoleContext,
        actor: str,
        tell: Callable[[str], None] | None,
        *,
        every_s: float = LINK_EVERY_S,
    ) -> None:
        """Take what writes a new link where the console runs (`tell`); without it nobody logs in here, and somebody
        in front of us says who comes."""
        self._desk, self._actor, self._tell, self._every_s = context, actor, tell, every_s
        self._told = float("-inf")

    async def needed(self, scope: Scope) -> Response:
        """Answer a request of nobody we know: no page, and no word of what is behind it."""
        request = Request(scope)
        query = f"?{request.url.query}" if request.url.query else ""
        return self._page(request, 401, go_on=local(f"{own_path(scope)}{query}"))

    async def outdated(self, scope: Scope) -> Response:
        """Answer a form that was made for another login: nothing is done, and what was typed is shown."""
        request = Request(scope)
        query = f"?{request.url.query}" if request.url.query else ""
        values = {"go_on": local(f"{own_path(scope)}{query}"), "typed": typed(form_of(request))}
        return HTMLResponse(self._desk.render(request, "outdated.html", **values), status_code=403)

    async def show(self, _: ConsoleContext, request: Request) -> Response:
        """Ask for a name, if the link still lets somebody in; the link is not used up by looking at it."""
        link = request.query_params.get("link", "")
        works = self._tell is not None and self._desk.access.has_link(link)
        return self._page(request, 200 if works else 401, link=link if works else "")

    async def log_in(self, _: ConsoleContext, request: Request) -> Response:
        """Use the link up, and begin a session."""
        form = form_of(request)
        name, link = form.get("name", "").strip(), form.get("link", "")
        if self._tell is None or not name or not self._desk.access.has_link(link):
            return self._page(request, 401, link=link if self._desk.access.has_link(link) else "")
        value = self._desk.access.log_in(link, name)
        answer = go_to(request, local(form.get("next", "/")))
        answer.set_cookie(
            self._desk.access.cookie,
            value or "",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
            path=str(request.scope.get("root_path", "")) or "/",
        )
        return answer

    async def new_link(self, _: ConsoleContext, request: Request) -> Response:
        """Have a new link written where the console runs, where whoever may log in sees it."""
        if self._tell is not None and clock.now() - self._told >= self._every_s:
            self._told = clock.now()
            self._tell(self._desk.access.new_link())
        return self._page(request, 401, written=self._tell is not None)

    async def log_out(self, _: ConsoleContext, request: Request) -> Response:
        """End the session."""
        self._desk.access.log_out(request.state.cookie)
        return self._page(request, 200)

    def _page(
        self, request: Request, status: int, *, link: str = "", go_on: str = "/", written: bool = False
    ) -> Response:
        values = {
            "link": link,
            "go_on": go_on,
            "written": written,
            "actor": self._actor,
            "typed": typed(form_of(request)),
        }
        text = self._desk.render(request, "login.html", **values, by_link=self._tell is not None)
        return HTMLResponse(text, status_code=status)
