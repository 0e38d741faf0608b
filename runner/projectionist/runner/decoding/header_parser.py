"""Reads the wanted headers of a message. Pure, and fast where it has seen the same names before."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

from projectionist.core import cloudevents
from projectionist.core.cloudevents import HeaderError
from projectionist.core.errors import ProjectionistError
from projectionist.core.printable_text import is_printable

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Headers

Fields = tuple[str | None, ...]
"""id, source, type, schema, aggregate type, aggregate, version, time, correlation, causation, traceparent,
ce-traceparent, tracestate, ce-tracestate, content type, message id."""

Pick = Callable[[Sequence[str | None]], Fields]

WORDS = tuple(cloudevents.DEFAULTS)
NOTHING: Fields = (None,) * (len(WORDS) + 6)

MOST_BYTES, MOST_LINES = 64 * 1024, 256
"""A larger block is not read at all: what follows takes time by its size. (A stream stores none above 64 KB.)"""

_TRACE = range(len(WORDS), len(WORDS) + 4)
_MOST_PLANS, _PLANNED_LINES, _PLANNED_BYTES = 64, 32, 1024
"""How many rows of names are remembered, and the largest: each is some 20 KB and 2 ms when it is compiled."""
SETTLED_AT = 4
"""So often a row is seen before it is compiled: what changes with every message never is."""
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_NEVER = re.compile(r"(?!)")
_SIMPLE = r"(?![ \t])([^\r]+)(?<![ \t])"
"""A value with nothing to trim. In text of ASCII without a percent it is itself, with nothing to decode either."""


class _Plan:
    """Says where the wanted headers stand in one row of names."""

    def __init__(self, names: tuple[str, ...], slots: Sequence[int]) -> None:
        self._names = names
        self.seen = 0
        self.pick: Pick = itemgetter(*slots)
        """The fields of a row of values with None behind it."""

    @cached_property
    def whole(self) -> re.Pattern[str]:
        """Return a whole block of these names with simple values, in a group each. The last group never takes part:
        None."""
        lines = "".join(rf"{re.escape(name)}: {_SIMPLE}\r\n" for name in self._names)
        return re.compile(rf"NATS/1\.0\r\n{lines}\r\n(?:(?!)())?")


class Heads:
    """Finds the wanted headers, whatever their case and order.

    Producers send few different rows of names, so where each wanted one stands is worked out once a row.
    """

    def __init__(self, names: Headers) -> None:
        mapped = [str(getattr(names, word)) for word in WORDS]
        trace = [
            cloudevents.TRACEPARENT,
            cloudevents.CE_TRACEPARENT,
            cloudevents.TRACESTATE,
            cloudevents.CE_TRACESTATE,
        ]
        self.names = tuple(
            name.lower() for name in (*mapped, *trace, cloudevents.CONTENT_TYPE, cloudevents.MESSAGE_ID)
        )
        self._coded = {slot for slot, name in enumerate(self.names) if name.startswith("ce-")}
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self._usual: tuple[re.Pattern[str], Pick] = _NEVER, itemgetter(0)

    def read(self, head: bytes | None) -> Fields:
        """Return the fields of a raw header block; HeaderError where it is too large, or a wanted one is repeated or
        not text.

        A malformed trace context is none.
        """
        if head is None:
            return NOTHING
        if len(head) > MOST_BYTES:
            raise HeaderError(f"the headers have {len(head)} bytes, more than {MOST_BYTES}")
        try:
            text = head.decode()
        except UnicodeDecodeError:
            text = head.decode("utf-8", "surrogateescape")
        if "%" not in text and text.isascii():
            usual, pick = self._usual
            found = usual.fullmatch(text)
            if found is not None:
                return pick(found.groups())
        return self._slowly(text)

    def _slowly(self, text: str) -> Fields:
        """Return the same for a block that is not written as the one before it."""
        lines = text.split("\r\n")
        if len(lines) > MOST_LINES:
            raise HeaderError(f"there are {len(lines)} lines of headers, more than {MOST_LINES}")
        try:
            names, values = zip(*[line.split(": ", 1) for line in lines[1:-2]])  # noqa: B905  checked by the unpacking
        except ValueError:
            names, values = _loose(lines)
        else:
            blanks = "  " in text or "\t" in text or " \r" in text
            if blanks or ":" in "".join(names) or lines[-1] or lines[-2]:
                names, values = _loose(lines)
        plan = self._plans.get(names)
        if plan is None:
            plan = self._plan(names)
        elif plan.seen < SETTLED_AT:
            plan.seen += 1
        else:  # seen often: from now on it is known at a glance
            self._usual = plan.whole, plan.pick
        fields = plan.pick((*values, None))
        return self._decoded(fields) if "%" in text or not text.isascii() else fields

    def _plan(self, names: tuple[str, ...]) -> _Plan:
        where: dict[str, int] = {}
        for index, name in enumerate(names):
            key = name.strip().lower()
            where[key] = -1 if key in where else index
        slots = [where.get(name, len(names)) for name in self.names]
        for slot, index in enumerate(slots):
            if index < 0:
                if slot not in _TRACE:
                    raise HeaderError(f"header {self.names[slot]} comes more than once")
                slots[slot] = len(names)
        plan = _Plan(names, slots)
        if len(names) <= _PLANNED_LINES and sum(map(len, names)) <= _PLANNED_BYTES:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[names] = plan
        return plan

    def _decoded(self, fields: Fields) -> Fields:
        return tuple(value if value is None else self._text(slot, value) for slot, value in enumerate(fields))

    def _text(self, slot: int, value: str) -> str | None:
        try:
            value.encode()
            return cloudevents.decode(value) if slot in self._coded and "%" in value else value
        except (UnicodeEncodeError, HeaderError):
            if slot in _TRACE:
                return None
            raise HeaderError(f"header {self.names[slot]} is not UTF-8") from None


class BadHeader(ProjectionistError):
    """A header with this name or value cannot be written."""


def replaced(head: bytes | None, given: Mapping[str, str | None]) -> bytes:
    """Return a header block with these headers instead of its own of the same names; None removes one."""
    for name, value in given.items():
        if not _NAME.fullmatch(name) or (value is not None and not is_printable(value, MOST_BYTES)):
            raise BadHeader(
                f"{name!r}: {value!r} cannot be a header",
                remedy="A name is of letters, digits and -, a value of one printable line",
            )
    names = {name.lower().encode() for name in given}
    lines = (head or b"NATS/1.0\r\n\r\n").split(b"\r\n")
    kept = [b for b in lines[1:] if b":" in b and b.partition(b":")[0].strip().lower() not in names]
    fresh = [f"{name}: {_coded(name, value)}".encode() for name, value in given.items() if value is not None]
    return b"\r\n".join([lines[0], *kept, *fresh, b"", b""])


def _coded(name: str, value: str) -> str:
    return cloudevents.encode(value) if name.lower().startswith("ce-") else value


def _loose(lines: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names and values of lines that are not written the usual way; what is no header is passed over."""
    pairs = [line.partition(":") for line in lines if ":" in line]
    return tuple(name.strip() for name, _, _ in pairs), tuple(value.strip(" \t") for _, _, value in pairs)
