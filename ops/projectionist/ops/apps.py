"""The arguments `[APP] [NAME …]` that many commands share, and the object that APP names."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from projectionist.core.errors import ProjectionistError
from projectionist.ops.terminal import UsageError

Kind = TypeVar("Kind")


def declare(parser: argparse.ArgumentParser, *, names: str = "") -> None:
    """Let a command take APP and, if `names` says what they name, any number of NAMEs; `split` reads them."""
    parser.add_argument(
        "words",
        nargs="*" if names else "?",
        metavar="APP NAME" if names else "APP",
        help=f"module:attribute (default: `app` in the settings){names and f', then {names}'}",
    )


def declare_act(parser: argparse.ArgumentParser) -> None:
    """Let a command take who acts and why, which are recorded."""
    parser.add_argument("--actor", default=getpass.getuser(), help="who does this (default: the user's name)")
    parser.add_argument("--reason", required=True, help="why this is right; it is recorded")


def split(args: argparse.Namespace, default: str | None) -> tuple[str, list[str]]:
    """APP and the names of a command's arguments: what holds a colon is the APP, which no name may hold."""
    words: Sequence[str] = [args.words] if isinstance(args.words, str) else args.words or ()
    apps = [word for word in words if ":" in word]
    if len(apps) > 1:
        raise UsageError(f"{' and '.join(apps)} are two apps", remedy="Name one")
    app = apps[0] if apps else default
    if app is None:
        raise UsageError(
            "no app is named", remedy="Say which, like shop.app:app, or set app in projectionist.toml"
        )
    return app, [word for word in words if ":" not in word]


def load(app: str, kind: type[Kind]) -> Kind:
    """The object of type `kind` that `module:attribute` names. The current folder is on the import path.

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
