"""Wishes: the intents of one batch, written as one value, and opened as rows by whoever looks at intents next.

A row an intent, with its place in the queue, costs five entries in indexes. A batch writes none of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.db import advisory_key
from projectionist.core.logs import facts
from projectionist.core.signals import announce

if TYPE_CHECKING:
    from projectionist.core.db import Connection
    from projectionist.core.sql import Statements

log = logging.getLogger("projectionist.outbox")

AT_ONCE = 4
"""How many rows of wishes are opened in one transaction."""
INTENTS, BYTES = 1000, 8 * 1024 * 1024
"""How much one row holds, beside one intent."""


class Wish(msgspec.Struct, gc=False):
    """An intent with its key and frozen content."""

    key: str
    source: str
    id: str
    aggregate: str | None
    version: int | None
    slot: str
    class_name: str
    provider: str
    destination: str
    ordering: str | None
    on_dead: str
    body: bytes
    traceparent: str | None
    tracestate: str | None
    seq: int
    """The stream sequence of the event."""


_NAMES = tuple(field.name for field in msgspec.structs.fields(Wish))


def packed(wishes: Sequence[Wish]) -> bytes:
    """Wishes as the JSON that `open_wishes` reads: a list of values for each field."""
    columns: dict[str, Sequence[object]] = dict(
        zip(_NAMES, zip(*map(msgspec.structs.astuple, wishes), strict=True), strict=True)
    )
    columns["body"] = [wish.body.decode() for wish in wishes]  # JSON inside JSON: text all the way
    return msgspec.json.encode(columns)


def parts(wishes: Sequence[Wish]) -> Iterator[Sequence[Wish]]:
    """Wishes in the portions that make a row each."""
    begin, size = 0, 0
    for at, wish in enumerate(wishes):
        if at - begin >= INTENTS or (at > begin and size + len(wish.body) > BYTES):
            yield wishes[begin:at]
            begin, size = at, 0
        size += len(wish.body)
    if begin < len(wishes):
        yield wishes[begin:]


async def open_wishes(connection: Connection, sql: Statements) -> int:
    """Open some of what batches have wished for; how many intents that were. One transaction: nothing is opened twice.

    None were there, or another opener was quicker, where it says 0.
    """
    row = await connection.fetchrow(sql["open"], AT_ONCE, advisory_key(sql.schema, "wishes"))
    assert row is not None, "it counts"
    opened: int = row["opened"]
    if row["reused"]:
        about = facts(count=row["reused"], message_ids=[row["first"]], kind="incident_intent_reuse")
        text = "incident intent_reuse: %d intents have a key that is taken, the first is of event %s"
        log.warning(text, row["reused"], row["first"], extra=about)
    if opened:
        announce("outbox.opened")
    return opened


async def open_all(connection: Connection, sql: Statements) -> None:
    """Open everything that is wished for by now: intents are looked at after this."""
    last = await connection.fetchval(sql["wished"])
    while last is not None and await connection.fetchval(sql["unopened"], last):
        await open_wishes(connection, sql)
