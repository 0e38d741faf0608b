"""What the fields of an envelope may be. Pure; where one is not, Refused says why."""

from __future__ import annotations

from projectionist.core import headers
from projectionist.core.headers import HeaderError
from projectionist.runner.delivery import Reason, Refused

ID_BYTES, TEXT_BYTES, DETAIL = 255, 512, 500
MOST_VERSION, MOST_SCHEMA = 2**63 - 1, 2**31 - 1


def number(text: str, most: int, reason: Reason) -> int:
    """The number that a header holds."""
    if text.isascii() and text.isdigit() and len(text) <= 40 and 1 <= (found := int(text)) <= most:
        return found
    raise Refused(reason, f"the {reason} {text!r} is not a number from 1 to {most}")


def agreed(what: str, header: str | None, token: str | None) -> str | None:
    """What header and subject say of an aggregate, where both do, or one."""
    if header is None or token is None or header == token:
        return token if header is None else header
    raise Refused(
        Reason.AGGREGATE, f"the aggregate's {what} is {header!r} by header and {token!r} by subject"
    )


def ordered_place(aggregate: str | None, version: int | None) -> tuple[str, int]:
    """What names an event where order counts."""
    if aggregate is None:
        raise Refused(Reason.AGGREGATE, "neither a header nor the subject names the aggregate")
    if version is None:
        raise Refused(Reason.VERSION, "the header of the aggregate's version is missing")
    return aggregate, version


def check_fields(source: str, name: str, kind: str, aggregate: str | None, subject: str) -> None:
    """Identity, type, aggregate and subject can be printed and fit an index."""
    joined = f"{source}{name}{kind}{aggregate}{subject}"
    if len(joined) <= ID_BYTES and joined.isascii() and joined.isprintable():
        return
    _check_text(Reason.IDENTITY, "id", name, ID_BYTES)
    _check_text(Reason.IDENTITY, "source", source, TEXT_BYTES)
    _check_text(Reason.TYPE, "type", kind, TEXT_BYTES)
    _check_text(Reason.AGGREGATE, "aggregate", aggregate or "", TEXT_BYTES)
    _check_text(Reason.SUBJECT, "subject", subject, TEXT_BYTES)


def check_causes(correlation: str | None, causation: str | None) -> None:
    """The same of correlation and causation."""
    _check_text(Reason.HEADERS, "correlation id", correlation or "", TEXT_BYTES)
    _check_text(Reason.HEADERS, "causation id", causation or "", TEXT_BYTES)


def check_time(text: str) -> None:
    """It is a time with an offset."""
    try:
        headers.timestamp(text)
    except HeaderError as error:
        raise Refused(Reason.TIME, error.message) from None


def trace_of(
    parent: str | None, ce_parent: str | None, state: str | None, ce_state: str | None
) -> tuple[str | None, str | None]:
    """A trace context that is malformed is none: the standard wants a new trace then, not a refusal."""
    if parent is None:
        parent, state = ce_parent, ce_state
    if parent is None or not headers.is_traceparent(parent):
        return None, None
    return parent, state if state and state.isprintable() and len(state.encode()) <= TEXT_BYTES else None


def clean(text: str) -> str:
    """`text` as PostgreSQL takes it."""
    return text[:DETAIL].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _check_text(reason: Reason, what: str, text: str, most: int) -> None:
    if not text.isprintable():
        raise Refused(reason, f"the {what} holds a character that cannot be printed: {text[:100]!a}")
    if (size := len(text.encode())) > most:
        raise Refused(reason, f"the {what} has {size} bytes, more than {most}: {text[:100]!a}")
