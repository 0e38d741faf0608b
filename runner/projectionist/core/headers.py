"""The headers an event travels with: their default names, CloudEvents' percent-coding, W3C trace context."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote

from projectionist.core.errors import ProjectionistError

DEFAULTS: Final = {
    "id": "ce-id",
    "source": "ce-source",
    "type": "ce-type",
    "schema": "ce-schemaversion",
    "aggregate_type": "ce-aggregatetype",
    "aggregate": "ce-aggregateid",
    "version": "ce-aggregateversion",
    "time": "ce-time",
    "correlation": "ce-correlationid",
    "causation": "ce-causationid",
}
"""What of an envelope travels in which header, unless a deployment maps it elsewhere."""

SPECVERSION: Final = "ce-specversion"
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
CE_TRACEPARENT: Final = "ce-traceparent"
CE_TRACESTATE: Final = "ce-tracestate"
CONTENT_TYPE: Final = "content-type"
MESSAGE_ID: Final = "Nats-Msg-Id"
EXPECTED_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"

_KEPT = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_PLAIN = re.compile(f"[{re.escape(_KEPT)}]*")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class HeaderError(ProjectionistError, ValueError):
    """A value cannot travel in a header, or did not arrive as one."""


def encode(value: str) -> str:
    """`value` as CloudEvents writes it: space, quote, percent and all but printable ASCII escaped."""
    if _PLAIN.fullmatch(value):
        return value
    try:
        return quote(value, safe=_KEPT)
    except UnicodeEncodeError as error:
        raise HeaderError(f"{value!r} holds half of a surrogate pair, which no encoding can carry") from error


def decode(value: str) -> str:
    """Undo one round of `encode`; an escape that is not UTF-8 is a HeaderError."""
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError as error:
        raise HeaderError(f"{value!r} holds escapes that are not UTF-8") from error


def timestamp(text: str) -> datetime:
    """An RFC 3339 time; anything else, and a time without an offset, is a HeaderError."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise HeaderError(f"{text!r} is not an RFC 3339 time") from error
    if time.tzinfo is not None and text[4:5] == "-":
        return time
    raise HeaderError(f"{text!r} is not an RFC 3339 time with an offset")


def is_traceparent(text: str) -> bool:
    """True if `text` is a W3C trace parent to be continued; where it is not, a new trace begins."""
    if not _TRACEPARENT.match(text):
        return False
    return len(text) == 55 or (text[:2] != "00" and text[55] == "-")  # only version 00 is known to end there


def compose(fields: dict[str, str | None]) -> dict[str, str]:
    """CloudEvents headers for the fields that are there, by the words of `DEFAULTS`."""
    headers = {SPECVERSION: "1.0"}
    for word, value in fields.items():
        if value is not None:
            headers[DEFAULTS[word]] = encode(value)
    return headers
