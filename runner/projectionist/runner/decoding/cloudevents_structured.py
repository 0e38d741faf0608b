"""CloudEvents in structured mode: the attributes stand in the body, beside the data. Pure."""

from __future__ import annotations

import binascii
from base64 import b64decode

import msgspec

from projectionist.core.cloudevents import HeaderError
from projectionist.runner.decoding.header_parser import Fields

CONTENT_TYPE = "application/cloudevents"

_JSON = "application/cloudevents+json"
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_attribute = msgspec.json.Decoder(str | int | bool | None)


def is_structured(content_type: str) -> bool:
    """Return whether the body is a whole CloudEvent."""
    return content_type[: len(CONTENT_TYPE)].lower() == CONTENT_TYPE


def unfold(content_type: str, fields: Fields, names: tuple[str, ...], body: bytes) -> tuple[Fields, bytes]:
    """Return the fields, those of the body before those of the headers, and the data; HeaderError if it is no event.

    `names` are the headers of `fields`; `ce-` and an attribute's name are one and the same.
    """
    if content_type.partition(";")[0].strip().lower() != _JSON:
        raise HeaderError(f"content type {content_type!r} is not {_JSON}")
    try:
        members = _object.decode(body)
        found = tuple(
            _text(members[name.removeprefix("ce-")]) if name.removeprefix("ce-") in members else value
            for name, value in zip(names, fields, strict=True)
        )
        return found, _data(members)
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError) as error:
        raise HeaderError(f"the body is not a CloudEvent in JSON: {error}") from None


def _text(raw: msgspec.Raw) -> str | None:
    value = _attribute.decode(raw)
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def _data(members: dict[str, msgspec.Raw]) -> bytes:
    if "data_base64" in members:
        return b64decode(msgspec.json.decode(members["data_base64"], type=str), validate=True)
    return bytes(members["data"]) if "data" in members else b""
