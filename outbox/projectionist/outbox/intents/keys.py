"""Keys are derived, never drawn; a frozen body is the same bytes for the same intent, in every process."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Any

import msgspec

from projectionist.core.pydantic_models import write_model

_encode = msgspec.json.Encoder(enc_hook=write_model, order="sorted").encode


def intent_key(
    consumer: str,
    source: str,
    id: str,  # noqa: A002 the envelope's word
    slot: str,
    scope: str | None = None,
) -> str:
    """Return the provider's idempotency key: consumer, identity of the event, slot, scope if any, and nothing else.

    Each part carries its length, so that no two different sets of parts are ever the same bytes.
    """
    return key_maker(consumer, slot)(source, id, scope)


def key_maker(consumer: str, slot: str) -> Callable[[str, str, str | None], str]:
    """Return `intent_key` for many events, given as (source, id, scope), of one consumer and slot."""
    begin, end = _part(consumer), _part(slot)

    def key(source: str, id: str, scope: str | None) -> str:  # noqa: A002
        name = id.encode()
        text = begin + _part(source) + len(name).to_bytes(4, "big") + name + end
        if scope is not None:
            row = scope.encode()
            text += len(row).to_bytes(4, "big") + row
        return blake2b(text, digest_size=16).hexdigest()

    return key


def cancel_key(consumer: str, source: str, id: str, class_name: str, slot: str) -> str:  # noqa: A002
    """Return the key of a Cancel: of as many parts as no intent's key has."""
    text = b"".join(map(_part, (consumer, source, id, "cancel", class_name, slot)))
    return blake2b(text, digest_size=16).hexdigest()


@lru_cache(1024)
def _part(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(4, "big") + encoded


def ordering_key(writer: str, provider: str, scope: str) -> str:
    """Return the key under which intents are sent one at a time, made of writer, provider and scope."""
    return ordering_maker(writer, provider)(scope)


def ordering_maker(writer: str, provider: str) -> Callable[[str], str]:
    """Return `ordering_key` for many scopes."""
    begin = f"{len(writer)}:{writer}{len(provider)}:{provider}"
    return lambda scope: f"{begin}{len(scope)}:{scope}"


def frozen_body(intent: object) -> bytes:
    """Return the content of an intent or event as the bytes every attempt sends: JSON with sorted keys.

    Raises ValueError for a value that JSON would not hold (not a number, a lone surrogate, a type without a JSON
    form), before anything is stored.
    """
    try:
        body = _encode(intent)
    except (TypeError, UnicodeEncodeError) as error:
        raise ValueError(f"{type(intent).__name__} cannot be written as JSON: {error}") from error
    # msgspec writes NaN and infinity as null; only a body that holds a null can be hiding one.
    if b"null" in body and _hides_a_number(msgspec.to_builtins(intent, enc_hook=write_model)):
        raise ValueError(f"{type(intent).__name__} holds a number that JSON does not know (NaN or infinity)")
    return body


def body_hash(body: bytes, due: str | None = None) -> bytes:
    """Tell two contents under one key apart: half of a SHA-256, which PostgreSQL makes of staged intents as well.

    `due`: when an intent is to be sent, which is a part of its content.
    """
    return sha256(body if due is None else b"%b\ndue %b" % (body, due.encode())).digest()[:16]


def _hides_a_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(_hides_a_number(inner) for inner in value.values())
    return isinstance(value, list | tuple) and any(_hides_a_number(inner) for inner in value)
