"""What identifies the content of an event, and of bytes that are none. Pure."""

from __future__ import annotations

import json
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from hashlib import blake2b

import msgspec

from projectionist.core import json_limits


def data_hash(data: bytes) -> bytes:
    """Return what identifies bytes without a readable envelope."""
    return blake2b(data, digest_size=16).digest()


def event_hash(kind: str, schema: int, aggregate: str | None, version: int | None, data: bytes) -> bytes:
    """Return what one identity must always arrive with, over the bytes as they are."""
    named = aggregate or ""
    prefix = f"{len(kind)}:{kind}{schema}:{len(named)}:{named}{version}:".encode()
    return blake2b(prefix + data, digest_size=16).digest()


def event_hashes(
    kind: str, schema: int, aggregate: str | None, version: int | None, data: bytes
) -> tuple[bytes, bytes]:
    """Return the hashes under which consumers may have settled this event, whichever way they are set to."""
    place = kind, schema, aggregate, version
    return event_hash(*place, data), event_hash(*place, canonical(data, len(data)))


def canonical(data: bytes, most_depth: int) -> bytes:
    """Return JSON in the one way in which equal documents are written; other bytes as they are.

    A document that names a member twice is no other's equal: of the two, a decoder keeps one. Numbers are equal where
    their values are, whatever a double can tell apart.
    """
    if json_limits.fault(data, most_depth):
        return data
    try:
        written = _ENCODER.encode(_DECODER.decode(data))
        return data if _repeats(data, written) else written
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError):
        return data


def _exact(number: str) -> Decimal:
    """Return a number with a fraction or an exponent, without zeros that say nothing."""
    return Decimal(number).normalize(_EXACT)


_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DECODER = msgspec.json.Decoder(float_hook=_exact)
_ENCODER = msgspec.json.Encoder(order="deterministic", decimal_format="number")


def _repeats(data: bytes, written: bytes) -> bool:
    """Return whether members were lost on the way from `data` to `written`."""
    if b"\\u" not in data:  # then every colon stands for itself, and each member that was lost had one
        return data.count(b":") != written.count(b":")
    try:
        json.loads(data, object_pairs_hook=_distinct)
    except _Repeated:
        return True
    return False


class _Repeated(Exception):
    """A member is named twice."""


def _distinct(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _Repeated
