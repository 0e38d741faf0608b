"""What stands for a text that may be content where it is not shown: short, and the same for the same text. Pure."""

from __future__ import annotations

import re
from hashlib import sha256
from urllib.parse import urlsplit

_DIGITS = 8
_WHOLE = re.compile(rf"[0-9a-f]{{{_DIGITS}}}")
_LAST = re.compile(rf"\[([0-9a-f]{{{_DIGITS}}})\]$")


def digest(text: str) -> str:
    """Return what tells texts apart and shows none of them. Statements make the same of what they hold."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def stand_in(text: str, about: str = "") -> str:
    """Return the digest of a text in brackets, behind what may be said about it."""
    return f"{about} [{digest(text)}]".lstrip()


def short_destination(destination: str) -> str:
    """Return a destination without what may be secret: the host of a URL, whose path may be a key, and its digest."""
    if not destination:
        return destination
    try:
        host = urlsplit(destination).hostname or ""
    except ValueError:
        host = ""
    return stand_in(destination, host)


def is_digest(text: str) -> bool:
    """Return whether a text is what `digest` makes; whatever else looks like it is looked for as if it were."""
    return _WHOLE.fullmatch(text) is not None


def sought(text: str | None) -> str | None:
    """Return what a filter looks for: the digest alone where it was given what a list shows."""
    found = None if text is None else _LAST.search(text)
    return text if found is None else found[1]
