"""What identifies the content of an event, and of bytes that are none. Pure."""

from __future__ import annotations

import json
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


def canonical(data: bytes, most_depth: int) -> bytes:
    """Return JSON in the one way in which equal documents are written; other bytes as they are.

    A document that names a member twice is no other's equal: of the two, a decoder keeps one.
    """
    if json_limits.fault(data, most_depth):
        return data
    try:
        written = msgspec.json.encode(msgspec.json.decode(data), order="deterministic")
        return data if _repeats(data, written) else written
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return data


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
