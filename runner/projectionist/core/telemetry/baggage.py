"""The members of an event's baggage that the settings allow: read from headers, kept as text, told by spans. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from projectionist.core.printable_text import is_printable
from projectionist.core.telemetry import names

if TYPE_CHECKING:
    from projectionist.core.telemetry.tracing import Given

MOST_VALUE = 256
"""A value of an allowed member with more bytes is dropped."""
MOST_TEXT = 2048
"""Members that do not fit into so many bytes are not kept."""
_MOST_MEMBERS = 64

Members = Mapping[str, str]


def of_headers(head: bytes | None, allowed: Collection[str]) -> Members:
    """Return the allowed members of the `baggage` in a raw header block; what is malformed is dropped."""
    found: dict[str, str] = {}
    for line in (head or b"").decode("utf-8", "replace").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.strip().lower() == "baggage":
            found |= {key: text for key, text in of_text(value).items() if key in allowed}
    return found


def of_text(text: str | None) -> Members:
    """Return the members of a `baggage` header; what is malformed is dropped."""
    found: dict[str, str] = {}
    for member in (text or "").split(",", _MOST_MEMBERS)[:_MOST_MEMBERS]:
        key, equals, value = member.partition(";")[0].partition("=")
        decoded = unquote(value.strip())
        if equals and is_printable(decoded, MOST_VALUE):
            found[key.strip()] = decoded
    return found


def permitted(text: str | None, allowed: Collection[str]) -> str | None:
    """Return a `baggage` header with its allowed members alone; None for none."""
    if not text or not allowed:
        return None
    return written({key: value for key, value in of_text(text).items() if key in allowed})


def written(members: Members) -> str | None:
    """Write members as a `baggage` header, without those that do not fit; None for none."""
    text = ""
    for key, value in members.items():
        longer = f"{text}{',' if text else ''}{key}={quote(value, safe='')}"
        text = longer if len(longer) <= MOST_TEXT else text
    return text or None


def attributes(members: Members) -> Given:
    """Tell members as attributes of a span."""
    return {f"{names.BAGGAGE}.{key}": value for key, value in members.items()}
