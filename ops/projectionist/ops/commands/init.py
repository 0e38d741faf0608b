"""`projectionist init`: a small project that works, to begin with."""

from __future__ import annotations

import argparse
import os
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from projectionist.core.errors import ProjectionistError
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, show_result

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = Topic.DEVELOP
HELP = "write a small working project into an empty folder: an event, a projection, a test, settings"
EXAMPLE = """
projectionist init             here
projectionist init my-orders   in a folder that is made if it is missing
projectionist init --here      beside files of one's own, none of which it replaces
"""

SUFFIX = ".txt"
"""Files of the project lie in this package under their name and this: tools must not take them for ours."""
RENAMED = {"gitignore": ".gitignore"}


class NotEmpty(ProjectionistError):
    """The folder holds something that is in the way; nothing was written."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("folder", nargs="?", default=".", help="where (default: here)")
    parser.add_argument(
        "--here", action="store_true", help="write beside what the folder holds, over none of it"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Write it, and say what to do next."""
    folder = Path(args.folder)
    written = write(folder, here=args.here)
    there = "" if folder.resolve() == Path.cwd() else f"cd {args.folder} && "
    steps = "projectionist dev up && projectionist migrate && python -m orders.publish && projectionist run"
    show_result(
        args,
        {"folder": str(folder), "files": written},
        "\n".join([*(f"wrote {name}" for name in written), "", f"Next: {there}{steps}"]),
    )
    return Exit.DONE


def write(folder: Path, *, here: bool = False) -> list[str]:
    """Write the project; the names of its files. NotEmpty if anything but hidden files is there, or it is no folder.

    `here`: other files may be there, but none that would be written over.
    """
    if folder.exists() and not folder.is_dir():
        raise NotEmpty(f"{folder} is a file", remedy="Name a folder that is empty or not there yet")
    project = sorted(_files())
    if here:
        _check_free(folder, [name for name, _ in project if name not in RENAMED.values()])
    else:
        _check_empty(folder)
    written = []
    for name, text in project:
        if name in RENAMED.values() and (folder / name).exists():
            continue  # one's own stays
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
        written.append(name)
    return written


def _check_empty(folder: Path) -> None:
    there = [one.name for one in folder.iterdir() if not one.name.startswith(".")] if folder.exists() else []
    if there:
        raise NotEmpty(
            f"{folder.resolve()} is not empty: it holds {', '.join(sorted(there)[:3])}",
            remedy="Name a folder that is empty or not there yet; or say --here, to write beside that",
        )


def _check_free(folder: Path, names: list[str]) -> None:
    """Refuse names that are taken, be it by a file where a folder of ours would be."""
    taken = {
        str(part)
        for name in names
        for part in (Path(name), *Path(name).parents[:-1])
        if os.path.lexists(folder / part) and (part == Path(name) or not (folder / part).is_dir())
    }
    if taken:
        raise NotEmpty(
            f"{', '.join(sorted(taken))} would be written over in {folder.resolve()}: nothing was written",
            remedy="Move what is named, or write the project into a folder of its own and take what you need",
        )


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
