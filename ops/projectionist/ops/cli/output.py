"""Says and asks for a command: text for people, JSON for programs, colour only where it is welcome."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from secrets import token_hex

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.printable_text import join_first, visible, visible_json


class Exit(IntEnum):
    """The exit codes of every command; they are public."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    ATTENTION = 3
    """It worked, and a person should look at what it shows."""


NAMED = 3
"""So many names stand in a column."""


class UsageError(ProjectionistError):
    """The command was called in a way that means nothing. It ends with `Exit.USAGE`."""


_hushed = False


def hush(*, quiet: bool) -> None:
    """Set whether from now on only results, warnings and errors are written."""
    global _hushed  # noqa: PLW0603  of the whole process, like the streams it is about
    _hushed = quiet


def is_quiet() -> bool:
    """Return whether only results, warnings and errors are written."""
    return _hushed


def log_level() -> int:
    """Return the lowest level at which log lines are written."""
    return logging.WARNING if _hushed else logging.INFO


def say(text: str) -> None:
    """Write a line of the result, or several."""
    sys.stdout.write(_shown(text) + "\n")


def note(text: str) -> None:
    """Write a line beside the result, such as progress or a hint; none where the command is quiet."""
    if not _hushed:
        warn(text)


def warn(text: str) -> None:
    """Write a line beside the result even where the command is quiet: errors, what was left undone."""
    sys.stderr.write(_shown(text) + "\n")


def say_json(value: object) -> None:
    """Write the result as one JSON document, in which what cannot be printed stands as JSON escapes it."""
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    sys.stdout.write(visible_json(text) + "\n")


_KEPT = "\n\t"
_MARK = token_hex(8)
"""Stands in texts of ours before a style, and in no text of anybody else's."""
_STYLE = re.compile(rf"({_MARK}\d+m)")


def _shown(text: str) -> str:
    """Return text for a terminal: of what would steer it, our own styles alone are left."""
    parts = _STYLE.split(text)
    parts[::2] = [visible(part, _KEPT) for part in parts[::2]]
    parts[1::2] = [f"\x1b[{style.removeprefix(_MARK)}" for style in parts[1::2]]
    return "".join(parts)


def table(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as aligned columns."""
    texts = [[visible(str(cell)) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*texts, strict=True)]
    lines = (
        "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        for row in texts
    )
    return "\n".join(line.rstrip() for line in lines)


def _width(cell: str) -> int:
    return len(_STYLE.sub("", cell))


def lines(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """Return these columns of rows as a table under their names; nothing for no rows."""
    if not rows:
        return ""
    return table([columns, *([cell(row[name]) for name in columns] for row in rows)])


def shown(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row for people: of several consumers the first ones, and how many there are."""
    return {name: names_in_short(value) if isinstance(value, list) else value for name, value in row.items()}


def names_in_short(names: Sequence[str | None]) -> str:
    """Return names in few words."""
    return join_first([name or "-" for name in names], NAMED)


def cell(value: object) -> str:
    """Return a value for people."""
    if value is None:
        return "-"
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else str(value)


def show_result(args: argparse.Namespace, document: Mapping[str, object], text: str) -> None:
    """Write the result as JSON or as text, as the arguments say."""
    if args.json:
        say_json(document)
    else:
        say(text or "No results.")


_CODES = {"good": "32", "bad": "31", "dim": "2"}


def styled(text: str, style: str) -> str:
    """Return `text` in one of the styles good, bad and dim, on a terminal whose user has not set NO_COLOR."""
    if not text or not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"{_MARK}{_CODES[style]}m{text}{_MARK}0m"


def confirmed(question: str) -> bool:
    """Ask a person. Where there is none, the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{_shown(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
