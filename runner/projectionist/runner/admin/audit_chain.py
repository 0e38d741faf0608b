"""Verifies the audit trail: each act's hash covers the one before it, so what was changed or removed shows.

The hashes are computed here and not by the database, whose owner can change its functions. Whoever may change
everything can make the whole chain anew: against that stands a copy of the last hash elsewhere, which this takes too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.postgres.statements import Statements

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row

GENESIS = bytes(32)
FIELDS = ("who", "action", "object", "reason", "detail", "session_role", "client", "os_user")
ROWS = 5_000
"""So many acts are read at a time."""


class VerifiedChain(msgspec.Struct, frozen=True):
    """The result: how much of the chain is sound, and where it is broken first."""

    acts: int
    first: int
    """The place of the first act that is there; those before it were purged."""
    place: int
    """The place of the last act that is sound."""
    hash: str
    """Its hash: kept elsewhere, it shows later whether the acts up to here are the same."""
    broken: str | None = None
    number: int | None = None
    """The number of the first act that is broken."""


def act_hash(before: bytes, act: Row) -> bytes:
    """Return the hash of an act behind another one's. Pure; the same as `audit_hash` in the database."""
    fields = (str(act["number"]), act["micros"], *(act[name] for name in FIELDS))
    texts = ("-" if field is None else f"{len(field.encode())}:{field}" for field in fields)
    return sha256(before + ",".join(texts).encode()).digest()


async def verify(
    connection: Connection, schema: str, *, known: Mapping[int, str] | None = None
) -> VerifiedChain:
    """Read the whole trail as it is at one moment; `known`: hashes by place that were kept elsewhere."""
    sql = Statements("projectionist.runner", schema)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        bounds = await connection.fetchrow(sql["select_audit_bounds"])
        assert bounds is not None, "the head is a row, always"
        acts = [act async for act in _acts(connection, sql["select_audit_chain"])]
    return judged(acts, bounds, known or {})


async def _acts(connection: Connection, statement: str) -> AsyncIterator[Row]:
    place = 0
    while rows := await connection.fetch(statement, place, ROWS):
        for row in rows:
            yield row
        if len(rows) < ROWS or rows[-1]["place"] is None:
            return
        place = rows[-1]["place"]


def judged(acts: Iterable[Row], bounds: Row, known: Mapping[int, str]) -> VerifiedChain:
    """Return what these acts say, in the order of the chain. Pure."""
    anchors = set(zip(bounds["places"], bounds["hashes"], strict=True))
    place, hash_, count, first = 0, GENESIS, 0, 1
    ends = bounds["hash"] if bounds["place"] == 0 else None

    def result(broken: str | None = None, number: int | None = None) -> VerifiedChain:
        return VerifiedChain(
            acts=count, first=first, place=place, hash=hash_.hex(), broken=broken, number=number
        )

    for act in acts:
        if place == 0 and (act["place"], act["hash"]) in anchors and not act["there"]:
            place, hash_, first = act["place"], act["hash"], act["place"] + 1
        else:
            problem, ours = _problem(act, place + 1, hash_, known)
            if problem is not None:
                return result(problem, act["number"])
            place, hash_, count = place + 1, ours, count + 1
        ends = hash_ if place == bounds["place"] else ends
    if place < bounds["place"] or (first <= bounds["place"] and ends != bounds["hash"]):
        return result(f"the chain was {bounds['place']} acts long, and is no more: its end was removed")
    return result()


def _problem(act: Row, place: int, before: bytes, known: Mapping[int, str]) -> tuple[str | None, Any]:
    """Return why an act does not stand at its place, or None and its hash."""
    if act["place"] is None:
        return f"act {act['number']} is in no chain: it was written past the triggers", b""
    if act["place"] != place:
        return (
            f"act {act['number']} is at place {act['place']}, and place {place} is empty: acts were removed",
            b"",
        )
    if not act["there"]:
        return f"act {act['number']} at place {place} was removed", b""
    ours = act_hash(before, act)
    if ours != act["hash"]:
        return f"act {act['number']} at place {place} was changed", b""
    if place in known and known[place] != ours.hex():
        return (
            f"the hash at place {place} is not the one that was kept elsewhere: the chain was made anew",
            b"",
        )
    return None, ours
