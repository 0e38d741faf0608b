"""Deliveries and positions in a line, for tests of the pure parts."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec
from tests.support.shop import OrderPlaced

from projectionist.core.nats.fast_client import Arrival
from projectionist.runner.batch.planning import LockedPosition
from projectionist.runner.decoding.delivery import Delivery, Reason, Unreadable


def delivery(version: int | None = 1, aggregate: str | None = "order/o1", **given: Any) -> Delivery:
    """A readable event; what is not given is made of aggregate and version."""
    data = given.pop("data", b"{}")
    name = given.pop("id", f"{aggregate}:{version}")
    made: dict[str, Any] = {
        "source": "shop",
        "id": name,
        "type": "order.placed",
        "schema": 1,
        "aggregate": aggregate,
        "version": version,
        "data": data,
        "hash": blake2b(data + name.encode(), digest_size=16).digest(),
        "stream": "SHOP",
        "seq": version or 1,
        "subject": "SHOP.order.o1",
        "event": None if given.get("problem") else OrderPlaced("ann", 1),
    }
    return Delivery(**(made | given))


def parked(version: int, aggregate: str = "order/o1", **given: Any) -> Delivery:
    """The same, read again from its parked row."""
    return delivery(version, aggregate, **({"parked": True, "incarnation": 1} | given))


def unreadable(seq: int) -> Unreadable:
    """An arrival that holds no event."""
    arrival = Arrival("SHOP.order.o1", b"", None, b"", 0.0)
    return Unreadable(Reason.TYPE, "no type", "SHOP", seq, "SHOP.order.o1", None, b"", 0, b"", 0, 1, arrival)


def position(version: int = 0, head: str = "clear", **given: Any) -> LockedPosition:
    """The locked row of order/o1."""
    made: dict[str, Any] = {
        "aggregate": "order/o1",
        "version": version,
        "head": head,
        "finding": None,
        "parked": 0,
        "due": None,
    }
    known = {
        field: value for field, value in (made | given).items() if field in LockedPosition.__struct_fields__
    }
    return msgspec.convert(known, LockedPosition)
