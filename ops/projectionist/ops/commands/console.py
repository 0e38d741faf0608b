"""`projectionist console`: see it, understand it, mend it, in a browser."""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
from typing import TYPE_CHECKING

from projectionist.core.errors import ProjectionistError, SettingsError
from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, UsageError, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from projectionist.core.settings.settings import Settings
    from projectionist.runner.app import App

TOPIC = Topic.LOOK
HELP = "serve the console on this machine: what waits, why, and the acts that mend it, for a browser"
EXAMPLE = """
projectionist console shop.app:app              prints a link that logs one person in, once
projectionist console shop.app:app --read-only  to look, and change nothing
projectionist console --listen 127.0.0.1:9000   at another port
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser)
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8710", help="where (default: 127.0.0.1:8710)"
    )
    parser.add_argument("--read-only", action="store_true", help="let nobody change anything")
    parser.add_argument(
        "--actor",
        metavar="NAME",
        default=app_arguments.actor(),
        help="the name that the login proposes (default: that of other commands)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve it until SIGTERM or SIGINT."""
    from projectionist.ops.cli.find_servers import settings
    from projectionist.runner.app import App

    host, port = place(args.listen)
    found = settings()
    name, _ = app_arguments.split(args, found.app)
    loaded = app_arguments.load(name, App)
    found.refuse_strangers(consumers=[one.name for one in loaded.definitions], providers=loaded.providers)
    asyncio.run(serve(loaded, name, found, (host, port), actor=args.actor, read_only=args.read_only))
    return Exit.DONE


def place(listen: str) -> tuple[str, int]:
    """Return where to listen: this machine alone, since nobody but its people may find the way in."""
    from ipaddress import ip_address

    from projectionist.core.settings.listen_address import address

    try:
        host, port = address(listen)
        local = host == "localhost" or ip_address(host).is_loopback
    except ValueError as error:
        raise UsageError(f"--listen {listen}: {error}", remedy="Write --listen 127.0.0.1:8710") from None
    if not local:
        raise UsageError(
            f"--listen {listen} can be reached from other machines",
            remedy="Listen at 127.0.0.1, and reach it through ssh -L or a tunnel",
        )
    return host, port


def require_console() -> None:
    """Refuse to go on without the packages that the console stands on."""
    try:
        import uvicorn  # noqa: F401 - only asked whether it is there

        from projectionist import console  # noqa: F401 - as above
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in {"jinja2", "markupsafe", "starlette", "uvicorn"}:
            raise
        raise ProjectionistError(
            f"the console needs {missing.name}", remedy="Run `pip install 'projectionist[console]'`"
        ) from None


async def serve(
    app: App,
    name: str,
    settings: Settings,
    place: tuple[str, int],
    *,
    actor: str,
    read_only: bool = False,
    told_to_end: Callable[[], None] = lambda: None,
) -> None:
    """Serve it until a signal says to end, of which `told_to_end` hears."""
    require_console()
    import uvicorn

    from projectionist import console
    from projectionist.console.access.sessions import Access, Role
    from projectionist.console.background_work import BackgroundWorks
    from projectionist.core.testpoints import announce
    from projectionist.ops.cli.database import database

    async with database("console", settings):
        pass  # another release's database, or none at all, is told here and not on every page
    host, port = place
    bound = _bound(host, port)
    access = Access(Role.VIEW if read_only else Role.DESTROY)
    shown = f"[{host}]" if ":" in host else host

    def tell(link: str) -> None:
        say(f"log in, once and within 10 minutes: http://{shown}:{port}/login?link={link}")

    works = BackgroundWorks()
    made = console.app(app, name=name, settings=settings, access=access, actor=actor, tell=tell, works=works)
    server = uvicorn.Server(
        uvicorn.Config(
            made,
            lifespan="off",
            access_log=False,
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=5,
        )
    )
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # the server takes them, and raises them again when it has ended
        signal.signal(number, lambda *_: told_to_end())
    tell(access.new_link())
    announce("console.listening")
    try:
        await server.serve(sockets=[bound])
    finally:
        await works.stop()


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket there; whoever connects from now on is answered as soon as the server runs."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128
        )
    except OSError as error:
        raise SettingsError(
            f"cannot listen at {host}:{port} ({error.strerror})",
            remedy="Say another port: --listen 127.0.0.1:8711",
        ) from None
