"""Keys are derived, never drawn; a frozen body is the same bytes for the same intent, in every process."""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="sorted").encode


def intent_key(consumer: str, source: str, id: str, slot: str) -> str:  # noqa: A002 the envelope's word
    """The provider's idempotency key: consumer, identity of the event, slot, and nothing else.

    Each part carries its length, so that no two different sets of parts are ever the same bytes.
    """
    digest = blake2b(digest_size=16)
    for part in (consumer, source, id, slot):
        text = part.encode()
        digest.update(len(text).to_bytes(4, "big"))
        digest.update(text)
    return digest.hexdigest()


def ordering_key(writer: str, provider: str, scope: str) -> str:
    """The key under which intents are sent one at a time: who writes them, for whom, and about what."""
    return "".join(f"{len(part)}:{part}" for part in (writer, provider, scope))


def frozen_body(intent: msgspec.Struct | dict[str, Any]) -> bytes:
    """The content of an intent or event as the bytes every attempt sends: JSON with sorted keys.

    Raises ValueError where JSON would not hold what the handler put in (not a number, a lone surrogate, a
    type that has no JSON form), before anything is stored.
    """
    try:
        body = _encode(intent)
    except (TypeError, UnicodeEncodeError) as error:
        raise ValueError(f"{type(intent).__name__} cannot be written as JSON: {error}") from error
    # msgspec writes NaN and infinity as null; only a body that holds a null can be hiding one.
    if b"null" in body and _hides_a_number(msgspec.to_builtins(intent)):
        raise ValueError(f"{type(intent).__name__} holds a number that JSON does not know (NaN or infinity)")
    return body


def body_hash(body: bytes) -> bytes:
    """What tells two contents under one key apart."""
    return blake2b(body, digest_size=16).digest()


def _hides_a_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(_hides_a_number(inner) for inner in value.values())
    return isinstance(value, list | tuple) and any(_hides_a_number(inner) for inner in value)
