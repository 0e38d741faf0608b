"""The events of a benchmark: the same ones for the same Load, whoever makes them. Pure."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from projectionist.core.cloudevents import DEFAULTS, TRACEPARENT

SOURCE = "/bench/shop"
PLACED, CHANGED = "order.placed", "order.changed"
FIRST_ORDER = 2_000_000_000
"""Orders count up, so a filled inbox holds lower numbers."""
_BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
_APART = timedelta(milliseconds=2)
_BEHIND = 2000
"""How many messages later a duplicate comes, and a late event after the one that has overtaken it."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is to do."""

    events: int
    aggregates: int
    payload: int
    random_ids: bool = False
    """Ids without any order, instead of ids that rise with time."""
    duplicates: float = 0
    """The share of events that come twice."""
    gaps: float = 0
    """The share of events that come after the next version of their order."""
    traced: float | None = None
    """The share of events whose trace is sampled; None: no event bears a trace context."""

    @property
    def messages(self) -> int:
        """Return how many messages there are, the duplicates with them."""
        again = len(range(0, self.events, _every(self.duplicates))) if self.duplicates else 0
        return self.events + again


class LoadMessage(NamedTuple):
    """One event as it travels."""

    order: str
    headers: dict[str, str]
    body: bytes


def messages(load: Load) -> Iterator[LoadMessage]:
    """Yield the messages in the order of the stream: the versions of every order from 1 on, other orders in between."""
    if not load.duplicates and not load.gaps:
        yield from _in_order(load)
        return
    twice, late = _every(load.duplicates), _every(load.gaps)
    held: dict[str, LoadMessage] = {}
    behind: deque[tuple[int, LoadMessage]] = deque()
    for number, message in enumerate(_in_order(load)):
        if message.order in held:
            behind.append((number + _BEHIND, held.pop(message.order)))
            yield message
        elif number % late == late - 1:
            held[message.order] = message
        else:
            yield message
        if load.duplicates and number % twice == 0:
            behind.append((number + _BEHIND, message))
        while behind and behind[0][0] <= number:
            yield behind.popleft()[1]
    yield from held.values()
    yield from (message for _, message in behind)


def _every(share: float) -> int:
    """Return each how-manieth event is meant by a share of them."""
    return round(1 / share) if share else sys.maxsize


def _in_order(load: Load) -> Iterator[LoadMessage]:
    chance = random.Random(20)  # noqa: S311  the same events each time
    versions = [0] * load.aggregates
    for number in range(load.events):
        at = chance.randrange(load.aggregates)
        versions[at] += 1
        yield _message(load, number, str(FIRST_ORDER + at), versions[at], chance.getrandbits(122))


def _message(load: Load, number: int, order: str, version: int, bits: int) -> LoadMessage:
    time = _BEGIN + number * _APART
    headers = {
        DEFAULTS["id"]: str(_identity(load, time, bits)),
        DEFAULTS["source"]: SOURCE,
        DEFAULTS["type"]: PLACED if version == 1 else CHANGED,
        DEFAULTS["version"]: str(version),
        DEFAULTS["time"]: time.isoformat(),
    }
    if load.traced is not None:
        sampled = load.traced > 0 and number % _every(load.traced) == 0
        headers[TRACEPARENT] = f"00-{bits | 1:032x}-{number + 1:016x}-{sampled:02x}"
    return LoadMessage(order, headers, _body(load.payload, number, version))


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
