"""What the fields of an envelope may be. Pure; where one is not, Refused says why."""

from __future__ import annotations

from projectionist.core import cloudevents, printable_text
from projectionist.core.cloudevents import HeaderError
from projectionist.core.printable_text import ID_BYTES, TEXT_BYTES
from projectionist.runner.decoding.delivery import Reason, Refused
from projectionist.runner.decoding.header_parser import WORDS

DETAIL = 500
LOST = "\ufffd"
"""What decoders leave of bytes that are not UTF-8, the broker's API among them."""
_BYTES = {0: 0xF700} | {code: 0xF700 + code % 0x100 for code in range(0xD800, 0xE000)}


def number(text: str, most: int, reason: Reason) -> int:
    """Return the number that a header holds."""
    if text.isascii() and text.isdigit() and len(text) <= 40 and 1 <= (found := int(text)) <= most:
        return found
    raise Refused(reason, f"the {reason} {text!r} is not a number from 1 to {most}")


def agreed(what: str, header: str | None, token: str | None) -> str | None:
    """Return what header and subject say of an aggregate, where both do, or one."""
    if header is None or token is None or header == token:
        return token if header is None else header
    raise Refused(
        Reason.AGGREGATE, f"the aggregate's {what} is {header!r} by header and {token!r} by subject"
    )


def lacking(word: str, names: tuple[str, ...], holds: str) -> str:
    """Return what to say of a header that is not there: its name, and the setting that names another."""
    return (
        f"there is no header {names[WORDS.index(word)]}, which holds {holds}: "
        f"{word} of [consumer_defaults.headers] names another"
    )


def ordered_place(aggregate: str | None, version: int | None, names: tuple[str, ...]) -> tuple[str, int]:
    """Return what names an event where order counts; `names` are the headers by their words."""
    if aggregate is None:
        held = "the aggregate's id, and the subject names none"
        raise Refused(Reason.AGGREGATE, lacking("aggregate", names, held))
    if version is None:
        raise Refused(Reason.VERSION, lacking("version", names, "the aggregate's version"))
    return aggregate, version


def check_fields(source: str, name: str, kind: str, aggregate: str | None, subject: str) -> None:
    """Check that identity, type, aggregate and subject can be printed and fit an index."""
    if LOST in subject:  # two different subjects of a stream would be one
        raise Refused(Reason.SUBJECT, f"the subject holds U+FFFD, which stands for lost bytes: {subject!a}")
    if printable_text.is_printable(f"{source}{name}{kind}{aggregate}{subject}", ID_BYTES):
        return
    _check_text(Reason.SUBJECT, "subject", subject, TEXT_BYTES)
    _check_text(Reason.IDENTITY, "id", name, ID_BYTES)
    _check_text(Reason.IDENTITY, "source", source, TEXT_BYTES)
    _check_text(Reason.TYPE, "type", kind, TEXT_BYTES)
    _check_text(Reason.AGGREGATE, "aggregate", aggregate or "", TEXT_BYTES)


def check_causes(correlation: str | None, causation: str | None) -> None:
    """Check the same of correlation and causation."""
    if printable_text.is_printable(f"{correlation}{causation}", TEXT_BYTES):
        return
    _check_text(Reason.HEADERS, "correlation id", correlation or "", TEXT_BYTES)
    _check_text(Reason.HEADERS, "causation id", causation or "", TEXT_BYTES)


def check_time(text: str) -> None:
    """Check that it is a time with an offset."""
    try:
        cloudevents.timestamp(text)
    except HeaderError as error:
        raise Refused(Reason.TIME, error.message) from None


def trace_of(
    parent: str | None, ce_parent: str | None, state: str | None, ce_state: str | None
) -> tuple[str | None, str | None]:
    """Return the trace context, or none where it is malformed: the standard wants a new trace then, not a refusal."""
    if parent is None:
        parent, state = ce_parent, ce_state
    return cloudevents.trace_context(parent, state)


def clean(text: str) -> str:
    """Return the beginning of `text` as PostgreSQL takes it."""
    return printable_text.storable(text[:DETAIL])


def kept(text: str | None, most: int) -> str | None:
    """Return `text`, where it is what one of its kind may be."""
    return text if text is not None and printable_text.is_printable(text, most) else None


def kept_subject(subject: str) -> str:
    """Return the subject of an unreadable message, whole, as PostgreSQL takes it.

    A private code point stands for each byte that no text can hold: two subjects stay two, and whoever reads the
    message again refuses it again.
    """
    return subject.translate(_BYTES)


def _check_text(reason: Reason, what: str, text: str, most: int) -> None:
    if flaw := printable_text.flaw(text, most):
        raise Refused(reason, f"the {what} {flaw}")
