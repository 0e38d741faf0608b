"""What a JSON body must not hold: what PostgreSQL refuses, or what hurts whoever decodes it. Pure."""

from __future__ import annotations

import re

_ESCAPES = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BACKSLASH, _BRACKET = b"\\["  # one byte is found sooner than two
_BRACKETS = re.compile(rb"[][{}]")


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
    high_ends = -1  # where a high half has just ended, and its low half must begin
    for found in _ESCAPES.finditer(data):
        code = int(found[1], 16) if found[1] else -1
        if code == 0:
            return "holds an escaped NUL"
        low, pending = 0xDC00 <= code <= 0xDFFF, high_ends >= 0
        if low != pending or (pending and found.start() != high_ends):
            break
        high_ends = found.end() if 0xD800 <= code <= 0xDBFF else -1
    else:
        if high_ends < 0:
            return None
    return "holds half of a surrogate pair"


def _deeper(data: bytes, most_depth: int) -> bool:
    depth = 0
    for bracket in _BRACKETS.finditer(_STRINGS.sub(b"", data)):
        depth += 1 if bracket[0] in b"{[" else -1
        if depth > most_depth:
            return True
    return False
