"""`projectionist dev`: a real PostgreSQL and a real NATS for this project, without installing either."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, confirmed, note, say, say_json, styled, table, warn

if TYPE_CHECKING:
    from projectionist.ops.embedded import Embedded, ServerStatus

TOPIC = Topic.DEVELOP
HELP = "start, stop or look at a PostgreSQL and a NATS server of this project's own"
EXAMPLE = """
projectionist dev up              start both under .projectionist/, with the streams of the app in the settings
projectionist dev up --json       the same, for a program to read
projectionist dev status --reveal the URLs with their passwords, for another client
projectionist dev status          are they up? (exit code 3 if not)
projectionist dev down            stop them; data stays
projectionist dev reset --yes     stop them and delete their data
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("act", choices=["up", "down", "status", "reset"], help="what to do")
    parser.add_argument("--yes", action="store_true", help="do not ask before deleting data")
    parser.add_argument(
        "--reveal",
        action="store_true",
        help="show the URLs with password and token",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do it on the servers of the project the command was called in."""
    from projectionist.core import project_servers
    from projectionist.core.settings.settings import FILE
    from projectionist.ops.embedded import Embedded

    servers = Embedded(project_servers.find(Path.cwd(), FILE), sync_always=True)
    acts = {"up": _up, "down": _down, "status": _status, "reset": _reset}
    return acts[args.act](servers, args)


def _up(servers: Embedded, args: argparse.Namespace) -> int:
    addresses = servers.up()
    made = _streams(addresses.nats_url)
    if not args.json:
        for text in (*addresses.notes, *made):
            note(f"note: {text}")
    _show(servers.status(), args, [*addresses.notes, *made])
    if not args.json:
        say(styled("Every commit and every message is on disk before it is confirmed.", "dim"))
    return Exit.DONE


def _streams(nats_url: str) -> list[str]:
    """Make the streams that the app of the settings declares; what was done, or why it could not be."""
    from projectionist.core.errors import ProjectionistError
    from projectionist.core.settings.settings import settings
    from projectionist.ops.cli import app_arguments
    from projectionist.runner.app import App
    from projectionist.runner.process.migrate_streams import migrate_streams

    try:
        found = settings()
        if found.app is None:
            return []
        app = app_arguments.load(found.app, App)
        if app.streams and [url.reveal() for url in found.nats.url] != [nats_url]:
            return ["no stream was made: the settings name another NATS, which is not that of `dev`"]
        plans = asyncio.run(migrate_streams(found, app.streams, app.definitions, apply=True))
    except ProjectionistError as error:
        return [f"no stream was made: {error}"]
    except Exception as error:  # noqa: BLE001 of the app's own modules; the servers are up all the same
        return [f"no stream was made: {found.app} cannot be imported: {error!r}"]
    return [f"{one.what}d stream {one.stream}" for one in plans if one.what]


def _down(servers: Embedded, args: argparse.Namespace) -> int:
    servers.down()
    return _show_done(args, {"down": True}, f"Both servers are stopped. Their data stays in {servers.home}.")


def _status(servers: Embedded, args: argparse.Namespace) -> int:
    found = servers.status()
    _show(found, args, [])
    return Exit.DONE if _are_up(found) else Exit.ATTENTION


def _show(found: list[ServerStatus], args: argparse.Namespace, notes: list[str]) -> None:
    """Show the servers; what is shown is often kept, in a terminal's history or a log of CI, so passwords are not."""
    from msgspec.structs import replace

    from projectionist.core.settings.secret import Url

    if not args.reveal:
        found = [replace(one, url=str(Url(one.url)) if one.url else "") for one in found]
    if args.json:
        urls = {f"{server.name}_url": server.url for server in found}
        say_json({"up": _are_up(found), **urls, "servers": found, "notes": notes})
    elif found:
        say(table((server.name, _state(server.pid), server.url, server.data) for server in found))
    else:
        say("No servers have been started here. `projectionist dev up` does.")


def _are_up(found: list[ServerStatus]) -> bool:
    return bool(found) and all(server.pid for server in found)


def _reset(servers: Embedded, args: argparse.Namespace) -> int:
    if not (args.yes or confirmed(f"Stop both servers and delete everything in {servers.home}?")):
        warn("nothing was deleted: say --yes to delete the data of both servers")
        return Exit.USAGE
    servers.reset()
    return _show_done(
        args, {"reset": True}, f"Both servers are stopped, their data in {servers.home} is deleted."
    )


def _state(pid: int) -> str:
    return styled(f"up (pid {pid})", "good") if pid else styled("down", "bad")


def _show_done(args: argparse.Namespace, result: dict[str, bool], text: str) -> int:
    if args.json:
        say_json(result)
    else:
        say(text)
    return Exit.DONE
