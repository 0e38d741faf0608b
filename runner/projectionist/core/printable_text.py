"""What a text has to be before it enters a statement, a header or a subject: one line that can be printed, and short.

What fails this is refused where it comes in: at reading, at publishing, at writing an intent. So nothing that stands
between the values of a statement or of a header, and nothing that PostgreSQL refuses, ever comes as part of one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

ID_BYTES: Final = 255
"""The most that an event's id may have."""
TEXT_BYTES: Final = 512
"""The most that any other text of an envelope may have."""

LISTED: Final = 10
"""So many names stand in a sentence."""

_SHOWN = 100


def is_printable(text: str, most: int) -> bool:
    """Return whether `text` can be printed, and has at most so many bytes as UTF-8.

    Control and format characters, line breaks, half surrogate pairs, private and unassigned code points cannot be.
    """
    return (
        len(text) <= most and text.isprintable() and (text.isascii() or len(text.encode()) <= most)
    )  # what can be printed can be encoded


def is_text(text: str) -> bool:
    """Return whether PostgreSQL takes it: no zero, no half surrogate pair, as arguments that are not UTF-8 have."""
    return storable(text) == text


def flaw(text: str, most: int) -> str | None:
    """Return why `text` does not fit, for people, with its beginning in ASCII; None if it does."""
    if is_printable(text, most):
        return None
    shown = f"{text[:_SHOWN]!a}"
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return f"is not UTF-8: {shown}"
    if not text.isprintable():
        return f"holds a character that cannot be printed: {shown}"
    return f"has {len(text.encode())} bytes, more than {most}: {shown}"


def join_first(names: Sequence[str], most: int = LISTED) -> str:
    """Join the first of these names, and say how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def visible(text: str, keep: str = "") -> str:
    """Return `text` with an escape in place of each character that cannot be printed, except those in `keep`.

    What comes from an event, a broker or a provider can so neither steer a terminal nor forge a line of a log.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else _escape(one) for one in text)


def visible_json(text: str) -> str:
    """Return a JSON document with what cannot be printed as JSON escapes it: it stands within texts alone."""
    return _FOREIGN.sub(lambda one: one[0] if one[0].isprintable() else json.dumps(one[0])[1:-1], text)


_FOREIGN = re.compile(r"[^\x20-\x7e\n]")


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode()


def storable(text: str) -> str:
    """Return `text` as PostgreSQL takes it, for people to read: what an exception or a broker says may hold
    anything."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
