"""Ids of events that are derived, never drawn: the same event made again has the same id."""

from __future__ import annotations

from hashlib import blake2b

Part = str | int | bool


def business_key(*parts: Part) -> str:
    """Return the id of an event that the business already identifies: `business_key("scan", scanner_id, scan_number)`.

    Equal parts in equal order give the same id, for ever and in every process; 7 and "7" are not equal.
    """
    if not parts:
        raise ValueError("a business key needs at least one part")
    return _digest("business", *(f"{type(part).__name__}:{part}" for part in parts))


def content_hash(data: bytes, *parts: Part) -> str:
    """Return the id of an event that only its content tells from others; further `parts`: its aggregate.

    Two facts that happen to read the same become one: where that may be, use a business key.
    """
    return _digest("content", data, *(f"{type(part).__name__}:{part}" for part in parts))


def derived_id(source: str, id: str, slot: str) -> str:  # noqa: A002 the envelope's word
    """Return the id of an event that is made because of another one; `slot` names one of several."""
    return _digest("derived", source, id, slot)


def _digest(*parts: str | bytes) -> str:
    """Hash the parts and their lengths, so that moving a character from one to the next changes it."""
    digest = blake2b(digest_size=16)
    for part in parts:
        text = part.encode() if isinstance(part, str) else part
        digest.update(len(text).to_bytes(8, "big"))
        digest.update(text)
    return digest.hexdigest()
