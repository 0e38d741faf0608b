"""Values in database form, as PostgreSQL would give them back, so that a batch of one equals one of a thousand.

A function per kind of column: it takes a value that a handler assigned and returns the form that is kept, or raises
BadValue for one that PostgreSQL would refuse or change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from projectionist.projections.errors import BadValue

Canonical = Callable[[Any], Any]

MOST_KEY_BYTES = 512
"""Longer texts are refused as row keys: an index entry has its limit, and a bad id should fail early."""

_INFINITE = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
_INT8 = 1 << 63
_NUMERIC_DIGITS = 131_072
_NUMERIC_SCALE = 16_383


def text(value: Any) -> str:
    """Return text without NUL and lone surrogates; subclasses of str become plain."""
    if value.__class__ is not str:
        if not isinstance(value, str):
            raise _wrong("str", value)
        value = str.__str__(value)
    plain: str = value
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError as error:
            raise BadValue("holds a lone surrogate, which is not text") from error
    if "\0" in plain:
        raise BadValue("holds a NUL character, which PostgreSQL cannot store")
    return plain


def key_text(value: Any) -> str:
    """Return text of a row key: not longer than an index entry should be."""
    if value.__class__ is str and value.isascii() and len(value) <= MOST_KEY_BYTES and "\0" not in value:
        usual: str = value  # it is asked for each event and view
        return usual
    plain = text(value)
    if len(plain) > MOST_KEY_BYTES or len(plain.encode()) > MOST_KEY_BYTES:
        raise BadValue(f"is longer than {MOST_KEY_BYTES} bytes, too long for a key")
    return plain


def integer(value: Any) -> int:
    """Return a 64-bit integer; True and members of int enums become the number they are."""
    if value.__class__ is not int:
        if not isinstance(value, int):
            raise _wrong("int", value)
        value = int(value)
    number: int = value
    if not -_INT8 <= number < _INT8:
        raise BadValue("is outside the range of 64 bits")
    return number


def real(value: Any) -> float:
    """Return a finite double; integers become the double they are."""
    if value.__class__ is not float:
        if not isinstance(value, int | float) or value.__class__ is bool:
            raise _wrong("float", value)
        try:
            value = float(value)
        except OverflowError as error:
            raise BadValue("is outside the range of a double") from error
    number: float = value
    if not math.isfinite(number):
        raise BadValue("is NaN or infinite")
    return number


def boolean(value: Any) -> bool:
    """Return True or False and nothing that merely looks like it."""
    if value.__class__ is not bool:
        raise _wrong("bool", value)
    return value


def numeric(value: Any) -> str:
    """Return a Decimal as the text that `numeric` gives back: no exponent, no negative zero, scale as given.

    Text, because the driver reads 10000 as Decimal("1E+4"): equal, and yet another text to a handler.
    """
    if value.__class__ is not Decimal:
        if not isinstance(value, Decimal | int) or value.__class__ is bool:
            raise _wrong("Decimal", value)
        value = Decimal(value)
    number: Decimal = value
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise BadValue("is NaN or infinite")
    if exponent < -_NUMERIC_SCALE or number.adjusted() >= _NUMERIC_DIGITS:
        raise BadValue("has more digits than numeric can hold")
    if not number:
        number = Decimal((0, (0,), min(exponent, 0)))
    return format(number, "f")


def binary(value: Any) -> bytes:
    """Return bytes; other buffers are copied."""
    if value.__class__ is not bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise _wrong("bytes", value)
        return bytes(value)
    return value


def moment(value: Any) -> datetime:
    """Return an aware datetime, in UTC: what a timestamptz gives back. Naive ones depend on the machine: refused."""
    if not isinstance(value, datetime):
        raise _wrong("datetime", value)
    if value.tzinfo is UTC and value.__class__ is datetime and not value.fold:
        return _finite(value)
    if value.utcoffset() is None:
        raise BadValue("has no time zone: write datetime.now(UTC) or .replace(tzinfo=…)")
    try:
        inner = value.astimezone(UTC)
    except OverflowError as error:
        raise BadValue("is outside the years 1 to 9999 in UTC") from error
    return _finite(datetime.combine(inner.date(), inner.time().replace(fold=0), UTC))


def _finite(value: datetime) -> datetime:
    if value in _INFINITE:
        raise BadValue(
            "is kept as infinity by the driver, as the first or last datetime: use None, or another"
        )
    return value


def day(value: Any) -> date:
    """Return a date; a datetime is refused, because which day it is depends on the time zone."""
    if value.__class__ is not date:
        raise BadValue(
            f"takes a date and got a {value.__class__.__name__}: write .date() in the zone you mean"
        )
    return value


def unique(value: Any) -> UUID:
    """Return a UUID; texts that look like one are refused."""
    if not isinstance(value, UUID):
        raise _wrong("UUID", value)
    return value


def member_of(kind: type[Enum], inner: Canonical) -> Canonical:
    """Return the value of a member of `kind`."""

    def member(value: Any) -> Any:
        if value.__class__ is not kind:
            raise _wrong(kind.__name__, value)
        return inner(value.value)

    return member


def _wrong(wanted: str, value: Any) -> BadValue:
    if value is None:
        return BadValue(f"is None and not optional: declare it `{wanted} | None`")
    return BadValue(f"takes a {wanted} and got a {value.__class__.__name__}")
