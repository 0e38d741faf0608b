"""What a JSON body must not hold: what PostgreSQL refuses, or what hurts whoever decodes it. Pure."""

from __future__ import annotations

import operator
import re
from itertools import accumulate, chain

_HIGH = re.compile(rb"\\u[dD][89abAB](?!..\\u[dD][c-fC-F])")
_LOW = re.compile(rb"\\u[dD][c-fC-F](?<!\\u[dD][89abAB]..\\u[dD].)")
_BACKSLASH, _BRACKET = b"\\["  # one byte is found sooner than two
_OPENED, _CLOSED = re.compile(rb"\[+"), re.compile(rb"\]+")
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_FEW = 10_000
"""So many pairs of brackets are walked over rather than taken away."""
_WALKED = 16
"""A pair that is walked over takes so much longer than one that is taken away; those inside others come up again."""

LARGE = 64 * 1024
"""A larger document is looked at beside the event loop: a hostile one takes 20 ms a megabyte."""


def fault(data: bytes, most_depth: int) -> str | None:
    """Say why `data` may not be decoded; None if it may. Numbers out of range are the decoder's to refuse."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            return f"is not UTF-8 at byte {error.start}"
    if bad := bad_text(data):
        return bad
    opened = data.count(b"{") + (data.count(b"[") if _BRACKET in data else 0)
    if opened > most_depth and _deeper(data, most_depth):
        return f"is nested deeper than {most_depth}"
    return None


def bad_text(data: bytes) -> str | None:
    """Say what of `data` no consumer could read whatever its settings are: text that PostgreSQL refuses."""
    if 0 in data:
        return "holds a NUL byte"
    return _bad_escape(data) if _BACKSLASH in data and b"\\u" in data else None


def _bad_escape(data: bytes) -> str | None:
    """Return an escaped NUL, or half of a surrogate pair: jsonb and text take neither."""
    data = data.replace(b"\\\\", b"##")  # so that each backslash that is left begins an escape
    if b"\\u0000" in data:
        return "holds an escaped NUL"
    return "holds half of a surrogate pair" if _HIGH.search(data) or _LOW.search(data) else None


def _deeper(data: bytes, most_depth: int) -> bool:
    """Return whether brackets outside of strings are nested deeper; few passes, each at the speed of memory."""
    left, taken = _brackets(data), 0
    while (pairs := left.count(b"[]")) > _FEW and pairs * _WALKED > len(left) and taken < most_depth:
        left, taken = left.replace(b"[]", b""), taken + 1
    left = left.lstrip(b"]")  # with which no document begins
    opened = accumulate(map(len, _OPENED.findall(left)))
    closed = chain((0,), accumulate(map(len, _CLOSED.findall(left))))
    return taken + max(map(operator.sub, opened, closed), default=0) > most_depth


def _brackets(data: bytes) -> bytes:
    """Return the brackets of a document outside of its strings, all of one kind."""
    if _BACKSLASH in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if b'"' in data:
        data = b"".join(data.split(b'"')[::2])
    return data.translate(_SQUARE, _NO_BRACKETS)
