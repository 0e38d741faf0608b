"""`projectionist init`: a small project that works, to begin with."""

from __future__ import annotations

import argparse
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from projectionist.core.errors import ProjectionistError
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, told

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = Topic.DEVELOP
HELP = "write a small working project into an empty folder: an event, a projection, a test, settings"
EXAMPLE = """
projectionist init             here
projectionist init my-orders   in a folder that is made if it is missing
"""

SUFFIX = ".txt"
"""Files of the project lie in this package under their name and this: tools must not take them for ours."""
RENAMED = {"gitignore": ".gitignore"}


class NotEmpty(ProjectionistError):
    """The folder holds something; nothing was written."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("folder", nargs="?", default=".", help="where (default: here)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Write it, and say what to do next."""
    folder = Path(args.folder)
    written = write(folder)
    there = "" if folder.resolve() == Path.cwd() else f"cd {args.folder} && "
    steps = "projectionist dev up && projectionist migrate && python -m orders.publish && projectionist run"
    told(
        args,
        {"folder": str(folder), "files": written},
        "\n".join([*(f"wrote {name}" for name in written), "", f"Next: {there}{steps}"]),
    )
    return Exit.DONE


def write(folder: Path) -> list[str]:
    """Write the project; the names of its files. NotEmpty if anything but hidden files is there, or it is no folder."""
    if folder.exists() and not folder.is_dir():
        raise NotEmpty(f"{folder} is a file", remedy="Name a folder that is empty or not there yet")
    there = [one.name for one in folder.iterdir() if not one.name.startswith(".")] if folder.exists() else []
    if there:
        raise NotEmpty(
            f"{folder.resolve()} is not empty: it holds {', '.join(sorted(there)[:3])}",
            remedy="Name a folder that is empty or not there yet",
        )
    written = []
    for name, text in sorted(_files()):
        if name in RENAMED.values() and (folder / name).exists():
            continue  # one's own stays
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
        written.append(name)
    return written


def _files() -> Iterator[tuple[str, str]]:
    for place, entry in _walk(files("projectionist.ops").joinpath("template"), ""):
        name = entry.name.removesuffix(SUFFIX)
        yield place + RENAMED.get(name, name), entry.read_text("utf-8")


def _walk(folder: Traversable, place: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{place}{entry.name}/")
        elif entry.name.endswith(SUFFIX):
            yield place, entry
