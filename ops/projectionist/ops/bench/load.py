"""The events of a benchmark: the same ones for the same Load, whoever makes them. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from projectionist.core.headers import DEFAULTS

SOURCE = "/bench/shop"
PLACED, CHANGED = "order.placed", "order.changed"
_FIRST_ORDER = 2_000_000_000
"""Orders count up, so a filled inbox holds lower numbers."""
_BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
_APART = timedelta(milliseconds=2)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is to do."""

    events: int
    aggregates: int
    payload: int
    random_ids: bool = False
    """Ids without any order, instead of ids that rise with time."""


class Message(NamedTuple):
    """One event as it travels."""

    order: str
    headers: dict[str, str]
    body: bytes


def messages(load: Load) -> Iterator[Message]:
    """The events in the order of the stream: of every order versions from 1 on, other orders in between."""
    chance = random.Random(20)  # noqa: S311  the same events each time
    versions = [0] * load.aggregates
    for number in range(load.events):
        at = chance.randrange(load.aggregates)
        versions[at] += 1
        yield _message(load, number, str(_FIRST_ORDER + at), versions[at], chance.getrandbits(122))


def _message(load: Load, number: int, order: str, version: int, bits: int) -> Message:
    time = _BEGIN + number * _APART
    headers = {
        DEFAULTS["id"]: str(_identity(load, time, bits)),
        DEFAULTS["source"]: SOURCE,
        DEFAULTS["type"]: PLACED if version == 1 else CHANGED,
        DEFAULTS["version"]: str(version),
        DEFAULTS["time"]: time.isoformat(),
    }
    return Message(order, headers, _body(load.payload, number, version))


def _identity(load: Load, time: datetime, bits: int) -> UUID:
    if load.random_ids:
        return UUID(int=bits, version=4)
    return UUID(int=int(time.timestamp() * 1000) << 80 | 7 << 76 | 2 << 62 | bits & (1 << 60) - 1)


def _body(size: int, number: int, version: int) -> bytes:
    fields = {"total_cents": number % 10_000, "note": ""}
    if version == 1:
        fields = {"customer": f"customer-{number % 1000}", "email": f"c{number % 1000}@shop.example"} | fields
    fields["note"] = "n" * max(0, size - len(msgspec.json.encode(fields)))
    return msgspec.json.encode(fields)
