"""The arguments `[APP] [NAME …]` that many commands share, and the object that APP names."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from projectionist.core.errors import ProjectionistError
from projectionist.core.operator import Act
from projectionist.core.settings.sources import ACTOR
from projectionist.ops.cli.output import UsageError

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings

Kind = TypeVar("Kind")


def whole(text: str) -> int:
    """Return the whole number that an argument is, of those that servers know."""
    if abs(number := int(text)) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text} is too large a number")
    return number


def declare(parser: argparse.ArgumentParser, *, names: str = "") -> None:
    """Let a command take APP and, if `names` says what they name, any number of NAMEs; `split` reads them."""
    parser.add_argument(
        "words",
        nargs="*" if names else "?",
        metavar="APP NAME" if names else "APP",
        help=f"module:attribute (default: `app` in the settings){names and f', then {names}'}",
    )


def declare_act(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Let a command take who acts and why, which are recorded: `args.actor`, `args.reason`."""
    parser.add_argument(
        "--actor",
        metavar="NAME",
        default=actor(),
        help=f"who does this (default: ${ACTOR}, else the name of this user)",
    )
    parser.add_argument("--reason", required=required, help="why this is right; it is recorded")


def act_of(args: argparse.Namespace) -> Act | None:
    """Return who acts and why, where a reason is given; None where the command needs none and none was given."""
    return None if args.reason is None else Act(args.actor, args.reason)


def declare_every(parser: argparse.ArgumentParser) -> None:
    """Let a command act on one event for all consumers that it concerns."""
    parser.add_argument(
        "--every-consumer", action="store_true", help="act on it for each consumer it concerns, in one go"
    )


def declare_many(parser: argparse.ArgumentParser, one: str) -> None:
    """Let a command that acts on things which wait show groups or each, reveal one, and act on one or all."""
    parser.add_argument("--older-than", type=float, metavar="SECONDS", help=f"only {one}s that wait so long")
    parser.add_argument("--each", action="store_true", help=f"list one line an {one} instead of groups")
    parser.add_argument("--limit", type=whole, default=50, help="lines of --each (default: 50)")
    parser.add_argument("--all", action="store_true", help="act on all that the filters choose, not on one")
    parser.add_argument("--rate", type=float, default=200, help="at most so many a second (default: 200)")
    declare_reveal(parser, "payloads, texts of errors, values of headers")
    declare_act(parser, required=False)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def declare_wait(parser: argparse.ArgumentParser) -> None:
    """Let a command say how long it waits until what it has made due is tried."""
    text = "retry --all: for samples (default: 30)"
    parser.add_argument("--wait", type=float, default=30, metavar="SECONDS", help=text)


def declare_reveal(parser: argparse.ArgumentParser, what: str) -> None:
    """Let a command show content, which it leaves out otherwise: `args.reveal`; beside it, `declare_act`."""
    text = f"show content too ({what}); recorded, needs --reason"
    parser.add_argument("--reveal", action="store_true", help=text)


def check_reveal(args: argparse.Namespace) -> None:
    """Raise UsageError where content is asked for without a reason."""
    if args.reveal:
        need_reason(args, "--reveal")


def need_reason(args: argparse.Namespace, what: str) -> None:
    """Raise UsageError without a reason for what is recorded."""
    if not (args.reason or "").strip():
        raise UsageError(f"{what} needs a reason", remedy='Say why: --reason "…"')


def actor() -> str:
    """Return the operator, as far as the environment knows; a user without a name has to give one."""
    try:
        return os.environ.get(ACTOR) or getpass.getuser()
    except (KeyError, OSError):
        return ""


def split(
    args: argparse.Namespace, default: str | None, *, consumers: int | None = None
) -> tuple[str, list[str]]:
    """Return APP and the names of a command's arguments: what holds a colon is the APP, which no name may hold.

    Where more than the names of `consumers` may follow, keys of rows among it, which may hold one, APP stands first.
    """
    words: Sequence[str] = [args.words] if isinstance(args.words, str) else args.words or ()
    apps = [word for word in (words if consumers is None else words[:1]) if ":" in word]
    if len(apps) > 1:
        raise UsageError(f"{' and '.join(apps)} are two apps", remedy="Name one")
    app = apps[0] if apps else default
    if app is None:
        raise UsageError(
            "no app is named", remedy="Say which, like shop.app:app, or set app in projectionist.toml"
        )
    at = words.index(app) if apps else len(words)
    return app, [*words[:at], *words[at + 1 :]]


def load(app: str, kind: type[Kind]) -> Kind:
    """Return the object of type `kind` that `module:attribute` names. The current folder is on the import path.

    What the module itself raises comes through as it is: its author needs the traceback.
    """
    module_name, _, attribute = app.partition(":")
    if not all(part.isidentifier() for part in f"{module_name}.{attribute}".split(".")):
        raise UsageError(f"{app!r} is not module:attribute", remedy="Write it like shop.app:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found = _attribute(_module(module_name, here), attribute, app)
    if not isinstance(found, kind):
        raise ProjectionistError(f"{app} is {type(found).__name__}, not {kind.__name__}")
    return found


def _module(name: str, here: str) -> object:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and imports one that is not
        raise ProjectionistError(
            f"there is no module {name}, neither in {here} nor installed",
            remedy="Name the app as module:attribute, and call from the folder the module is in",
        ) from None


def _attribute(found: object, attribute: str, app: str) -> object:
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise ProjectionistError(f"{app}: there is no {name!r} in {app.partition(':')[0]}") from None
    return found


def declare_listen(parser: argparse.ArgumentParser) -> None:
    """Declare where this process is asked how it is: of several on one machine each needs a place of its own."""
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="health and metrics, instead of listen of [telemetry]"
    )


def listening(found: Settings, listen: str | None) -> Settings:
    """Return the settings with the place that was named, if one was."""
    if listen is None:
        return found
    from projectionist.core.settings.listen_address import address  # noqa: PLC0415  loaded where it is needed

    try:
        address(listen)
    except ValueError as error:
        raise UsageError(f"--listen {listen}: {error}", remedy="Write --listen 127.0.0.1:9465") from None
    return replace(found, telemetry=replace(found.telemetry, listen=listen))
