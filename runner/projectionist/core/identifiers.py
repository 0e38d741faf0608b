"""The one place where a name becomes an SQL identifier."""

from __future__ import annotations

from projectionist.core.errors import IdentifierError

MOST_BYTES = 63
"""PostgreSQL cuts longer identifiers without a word, so that two long names could become one."""


def checked(name: str, *, what: str = "name", suffix: str = "") -> str:
    """Return `name` if it and the longest name derived from it by `suffix` are names PostgreSQL keeps whole."""
    size = len((name + suffix).encode())
    if not name or "\0" in name or not name.isprintable():
        raise IdentifierError(f"{what} {name!r} is empty or holds a character that cannot be printed")
    if size > MOST_BYTES:
        longest = f" (with {suffix!r})" if suffix else ""
        raise IdentifierError(
            f"{what} {name!r}{longest} has {size} bytes, PostgreSQL keeps {MOST_BYTES}",
            remedy=f"Shorten it by {size - MOST_BYTES} bytes",
        )
    return name


def quoted(name: str, *, what: str = "name") -> str:
    """Return `name` as a quoted SQL identifier."""
    return '"' + checked(name, what=what).replace('"', '""') + '"'
