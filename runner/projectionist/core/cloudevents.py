"""The headers an event travels with: their default names, CloudEvents' percent-coding, W3C trace context."""

from __future__ import annotations

import re
from datetime import UTC, datetime
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
EXPECTED_STREAM: Final = "Nats-Expected-Stream"

MOST_VERSION, MOST_SCHEMA = 2**63 - 1, 2**31 - 1

_KEPT = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_PLAIN = re.compile(f"[{re.escape(_KEPT)}]*")
_traceparent = re.compile(  # only version 00 is known to end after its flags
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{0,456})?"
).fullmatch
_tracestate = re.compile(r"[!-~](?:[ -~]{0,510}[!-~])?").fullmatch
_time = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,32})?(?:[Zz]|[+-][0-9]{2}:[0-5][0-9])"
).fullmatch


class HeaderError(ProjectionistError, ValueError):
    """A value cannot travel in a header, or did not arrive as one."""


def encode(value: str) -> str:
    """Return `value` as CloudEvents writes it: space, quote, percent and all but printable ASCII escaped."""
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
    """Return an RFC 3339 time; anything else, and a time without an offset, is a HeaderError."""
    if _time(text):
        try:
            moment = datetime.fromisoformat(f"{text[:-1]}Z" if text[-1] == "z" else text)
            if moment.year in (1, 9999):
                moment.astimezone(UTC)
            return moment
        except (ValueError, OverflowError):  # no such day or hour, or none in another zone
            pass
    raise HeaderError(f"{text[:100]!a} is not an RFC 3339 time with an offset")


def is_traceparent(text: str) -> bool:
    """Return whether `text`, all of it, is a W3C trace parent to be continued; where it is not, a new trace begins."""
    return _traceparent(text) is not None


def trace_context(parent: str | None, state: str | None) -> tuple[str | None, str | None]:
    """Return parent and state as they may be stored and sent on, each None where it is malformed or was not there.

    Printable ASCII of at most 512 bytes each; a state without its parent means nothing.
    """
    if parent is None or not _traceparent(parent):
        return None, None
    return parent, state if state is not None and _tracestate(state) else None


def compose(fields: dict[str, str | None]) -> dict[str, str]:
    """Return CloudEvents headers for the fields that are there, by the words of `DEFAULTS`."""
    headers = {SPECVERSION: "1.0"}
    for word, value in fields.items():
        if value is not None:
            headers[DEFAULTS[word]] = encode(value)
    return headers
