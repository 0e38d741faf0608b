"""What identifies the content of an event, and of bytes that are none. Pure."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from projectionist.runner import guards


def data_hash(data: bytes) -> bytes:
    """What identifies bytes without a readable envelope."""
    return blake2b(data, digest_size=16).digest()


def event_hash(kind: str, schema: int, aggregate: str | None, version: int | None, data: bytes) -> bytes:
    """What one identity must always arrive with, over the bytes as they are."""
    named = aggregate or ""
    prefix = f"{len(kind)}:{kind}{schema}:{len(named)}:{named}{version}:".encode()
    return blake2b(prefix + data, digest_size=16).digest()


def canonical(data: bytes, most_depth: int) -> bytes:
    """JSON in the one way in which equal documents are written; other bytes as they are."""
    if guards.fault(data, most_depth):
        return data
    try:
        return msgspec.json.encode(msgspec.json.decode(data), order="deterministic")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return data
