"""Ids for events that are the same again when the same event is made again. None is drawn."""

from __future__ import annotations

from hashlib import blake2b

Part = str | int | bool


def business_key(*parts: Part) -> str:
    """The id of what the business already identifies: `business_key("scan", scanner_id, scan_number)`.

    Equal parts in equal order give the same id, for ever and in every process; 7 and "7" are not equal.
    """
    if not parts:
        raise ValueError("a business key needs at least one part")
    return _digest("business", *(f"{type(part).__name__}:{part}" for part in parts))


def content_hash(data: bytes, *parts: Part) -> str:
    """The id of an event that nothing but its content tells from others; further `parts`: its aggregate.

    Two facts that happen to read the same become one: where that may be, use a business key.
    """
    return _digest("content", data, *(f"{type(part).__name__}:{part}" for part in parts))


def derived_id(source: str, id: str, slot: str) -> str:  # noqa: A002 the envelope's word
    """The id of an event that is made because of another one; `slot` names which of several."""
    return _digest("derived", source, id, slot)


def _digest(*parts: str | bytes) -> str:
    """A hash over the parts and their lengths, so that moving a character from one to the next changes it."""
    digest = blake2b(digest_size=16)
    for part in parts:
        text = part.encode() if isinstance(part, str) else part
        digest.update(len(text).to_bytes(8, "big"))
        digest.update(text)
    return digest.hexdigest()
