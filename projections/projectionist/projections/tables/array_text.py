"""A column of rows as the text of one PostgreSQL array, where the driver would look at each value by itself. Pure.

    {"ann","o'neil \\"x\\"",null}

JSON writes texts, integers, booleans and null in the same way, many times as fast as the driver binds them, but for
control characters: JSON has names for them, and PostgreSQL takes them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

Value = str | int | bool | None


def array_text(values: Sequence[Value]) -> str:
    """Return the values as `$1::text::text[]`, or another type of array, reads them."""
    written = msgspec.json.encode(values)
    listed = b",".join(map(_escaped, values)) if b"\\" in written else memoryview(written)[1:-1]
    return b"".join((b"{", listed, b"}")).decode()  # bytes, since one emoji makes a text four times as long


def _escaped(value: Value) -> bytes:
    if isinstance(value, str):
        return b'"%b"' % value.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return msgspec.json.encode(value)
