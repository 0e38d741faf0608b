"""A value as the text PostgreSQL gives back for it from a `jsonb` column, byte for byte.

Handlers of one batch see each other's documents through this text, so that a document means the same whether
it came from the batch or from the table.
"""

from __future__ import annotations

import math
from decimal import Decimal
from json.encoder import encode_basestring as _quoted
from typing import Any

import msgspec

from projectionist.projections.errors import BadValue


def text(value: Any) -> str:
    """Write the `jsonb` text of a document. Raises BadValue for a value that jsonb cannot hold or would change."""
    parts: list[str] = []
    _write(value, parts.append)
    return "".join(parts)


def _write(value: Any, put: Any) -> None:
    kind = value.__class__
    if kind is str:
        put(_string(value))
    elif kind is int:
        put(_integer(value))
    elif value is None:
        put("null")
    elif kind is bool:
        put("true" if value else "false")
    elif kind is dict:
        _write_object(value, put)
    elif kind is list:
        _write_array(value, put)
    elif kind is float:
        put(_number(value))
    else:
        _write(_plain(value), put)


def _write_object(value: dict[Any, Any], put: Any) -> None:
    opening = "{"
    for key in sorted(value, key=_rank):
        put(opening)
        put(_string(key))
        put(": ")
        _write(value[key], put)
        opening = ", "
    put("{}" if not value else "}")


def _write_array(value: list[Any], put: Any) -> None:
    opening = "["
    for item in value:
        put(opening)
        _write(item, put)
        opening = ", "
    put("[]" if not value else "]")


def _rank(key: Any) -> tuple[int, bytes]:
    """Return the rank of a key in jsonb: shorter first, then by bytes."""
    if key.__class__ is not str:
        raise BadValue(f"has a key of type {key.__class__.__name__}: keys of a document are strings")
    try:
        encoded = key.encode()
    except UnicodeEncodeError as error:
        raise BadValue("has a key with a lone surrogate, which is not text") from error
    return len(encoded), encoded


def _string(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BadValue("holds a lone surrogate, which is not text") from error
    if "\0" in value:
        raise BadValue("holds a NUL character, which PostgreSQL cannot store")
    return _quoted(value)


def _integer(value: int) -> str:
    try:
        return str(value)
    except ValueError as error:  # Python refuses to write thousands of digits
        raise BadValue("holds a number with too many digits") from error


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise BadValue("holds NaN or infinity, which JSON does not know")
    if not value:
        return "0.0"  # jsonb has no negative zero
    written = repr(value)
    if "e" not in written:
        return written
    # jsonb writes exponents out. A large number comes back as an integer, so it is written exactly.
    return format(Decimal(value if "e+" in written else written), "f")


def _plain(value: Any) -> Any:
    """Turn a value that is not JSON itself into one that is: structs, dates, enums by way of msgspec."""
    if isinstance(value, tuple | set | frozenset):
        raise BadValue(f"holds a {value.__class__.__name__}, which would come back as a list: use a list")
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list):
        return list(value)
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError) as error:
        raise BadValue(f"holds a {value.__class__.__name__}, which has no form in JSON") from error
