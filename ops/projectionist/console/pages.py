"""Turns values into pages: the templates, and how numbers, times and commands are written in them. Pure."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from projectionist.console.charts import applied, failed, failures, pace
from projectionist.core.printable_text import visible

HERE = Path(__file__).parent
STATIC = HERE / "static"
MINUTE, HOUR, DAY, WEEK = 60, 3600, 86400, 7 * 86400
SHORTENED = 10_000_000
TO_SAY = "…"
"""Stands in a command line for what whoever types it has to say."""
NONE = "\N{EN DASH}"
_CODE = re.compile(r"`([^`\n]+)`")


def duration(seconds: float) -> str:
    """Write a length of time with one unit, or two between a day and a week."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s" if 0 < seconds < 1 else f"{max(seconds, 0):.0f} s"
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h"
    days, hours = seconds // DAY, seconds % DAY // HOUR
    return f"{days:.0f} d {hours:.0f} h" if hours and seconds < WEEK else f"{days:.0f} d"


def count(number: float | None) -> str:
    """Write a number with separators, from ten millions on shortened; a dash where there is none."""
    if number is None:
        return NONE
    if number >= SHORTENED:
        return f"{number / 1e6:.1f} M"
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def size(number: int) -> str:
    """Write a number of bytes."""
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= least:
            return f"{number / least:.1f} {unit}"
    return f"{number} B"


def moment(at: datetime | None) -> Markup:
    """Write a time in short, relative to now, with the absolute one on hover."""
    if at is None:
        return escape(NONE)
    utc = at.astimezone(UTC)
    ago = (datetime.now(UTC) - utc).total_seconds()
    told = f"{duration(ago)} ago" if ago >= 0 else f"in {duration(-ago)}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        utc.isoformat(timespec="seconds"), f"{utc:%-d %B %Y, %H:%M:%S} UTC", told
    )


def command_line(*words: object, of: str | None = None) -> str:
    """Return the command that does the same, as a shell takes it; what is None is left out.

    `of` is a name that others have chosen, as that of an event: whatever it looks like, it is not taken for an option.
    """
    told = [str(word) for word in words if word is not None]
    place = next((place for place, word in enumerate(told) if word.startswith("-")), len(told))
    if of is not None and of.startswith("-"):
        # All that stands alone comes last: parsers fill it from one stretch.
        told = [told[0], *told[place:], "--", *told[1:place], of]
    elif of is not None:
        told.insert(place, of)
    return " ".join(["projectionist", *(word if word == TO_SAY else shlex.quote(word) for word in told)])


def flag(name: str, value: str | None) -> list[str]:
    """Return an option of a command and its value, which may begin like an option; nothing for None."""
    if value is None:
        return []
    return [f"--{name}={value}"] if value.startswith("-") else [f"--{name}", value]


def sentence(text: str) -> Markup:
    """Write what commands print too: what stands between backticks is code. All of it is escaped."""
    parts = _CODE.split(visible(text, "\n\t"))
    return Markup().join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def asset(name: str) -> str:
    """Return the address of a file that pages load: another one with each content, so that browsers may keep it."""
    return f"/static/{name}?{_content(name)}"


@cache
def _content(name: str) -> str:
    return sha256((STATIC / name).read_bytes()).hexdigest()[:16]


def _printable(value: Any) -> Any:
    """Show what cannot be printed as an escape: texts of events neither turn a line around nor hide a part of it."""
    return visible(value, "\n\t") if type(value) is str else value


def environment() -> Environment:
    """Return the templates. Whatever they are given is escaped; a name that they lack is an error."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "duration": duration,
        "count": count,
        "size": size,
        "moment": moment,
        "sentence": sentence,
    }
    made.globals |= {"asset": asset, "applied": applied, "failed": failed, "failures": failures, "pace": pace}
    made.tests["has_time"] = lambda value: isinstance(value, datetime)
    return made
