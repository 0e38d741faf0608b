"""Staging: the intents of one batch are written as one value, and unpacked as rows by a relay or a command.

A row an intent, with its place in the queue, costs five entries in indexes. A batch writes none of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from projectionist.core.log_format import facts
from projectionist.core.postgres.connections import advisory_key
from projectionist.core.postgres.error_text import said
from projectionist.core.printable_text import storable
from projectionist.core.testpoints import announce

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.postgres.statements import Statements

log = logging.getLogger("projectionist.outbox")

AT_ONCE = 4
"""So many rows of staged intents are unpacked in one transaction."""
_OF_THE_ROW = ("21", "22", "23", "54")
"""SQLSTATEs about a value: no JSON, too long, missing, more than an index takes."""
INTENTS, BYTES = 1000, 8 * 1024 * 1024
"""One row holds so many intents, or so many bytes of them; a larger intent has a row of its own."""


class Guard(StrEnum):
    """Says by what a scheduled intent may be sent once it is due."""

    CLOCK = "clock"
    CAUGHT_UP = "caught_up"
    """Its consumer has settled all that was published before."""


class StagedIntent(msgspec.Struct, gc=False):
    """An intent with its key and frozen content; or a Cancel, without content, under a key of its own."""

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
    baggage: str | None = None
    due: str | None = None
    """When it is to be sent, in UTC; None: at once."""
    guard: Guard | None = None
    expires_s: float | None = None
    """How long after that it is not sent any more."""
    cancels: str | None = None
    """Of a Cancel: the names of the class whose intents it takes back, as JSON."""
    view: int | None = None
    """The view whose handler asked for it."""
    scope: str | None = None
    """The key of the row it was asked for with, as JSON, where a handler runs with several."""


_RARE = ("baggage", "due", "guard", "expires_s", "cancels", "view", "scope")
"""Fields that most batches have no value for."""
_NAMES = tuple(field.name for field in msgspec.structs.fields(StagedIntent))


def encode_intents(staged: Sequence[StagedIntent]) -> bytes:
    """Encode intents as the JSON that `unpack_intent_batches` reads: a list of values for each field."""
    columns: dict[str, Sequence[object]] = dict(
        zip(_NAMES, zip(*map(msgspec.structs.astuple, staged), strict=True), strict=True)
    )
    columns["body"] = [intent.body.decode() for intent in staged]  # JSON inside JSON: text all the way
    for name in _RARE:
        if not any(columns[name]):
            del columns[name]
    return msgspec.json.encode(columns)


def intent_chunks(staged: Sequence[StagedIntent]) -> Iterator[Sequence[StagedIntent]]:
    """Divide intents into the portions that make a row each."""
    begin, size = 0, 0
    for at, intent in enumerate(staged):
        if at - begin >= INTENTS or (at > begin and size + len(intent.body) > BYTES):
            yield staged[begin:at]
            begin, size = at, 0
        size += len(intent.body)
    if begin < len(staged):
        yield staged[begin:]


class Opened(msgspec.Struct, frozen=True):
    """How many intents were unpacked."""

    intents: int
    timed: bool = False
    """Some of them are to be sent later, or take back what was."""


async def unpack_some(connection: Connection, sql: Statements) -> int:
    """Unpack some rows of staged intents; return the number of intents. One transaction: none is unpacked twice.

    Return 0 where none were left, or another process was quicker. A row that the database refuses for its content is
    put aside, and counts as well.
    """
    return (await unpack_rows(connection, sql)).intents


async def unpack_rows(connection: Connection, sql: Statements) -> Opened:
    """Unpack some rows of staged intents, as `unpack_some` does; tell of what kinds they were."""
    key = advisory_key(sql.schema, "staged intents")
    try:
        opened = await _unpacked(connection, sql, AT_ONCE, key)
    except asyncpg.PostgresError as error:
        if connection.is_in_transaction() or not str(error.sqlstate).startswith(_OF_THE_ROW):
            raise
        opened = await _unpacked_alone(connection, sql, key)
    if opened.intents:
        announce("outbox.opened")
    return opened


async def _unpacked(connection: Connection, sql: Statements, most: int, key: int) -> Opened:
    row = await connection.fetchrow(sql["unpack_intent_batches"], most, key)
    assert row is not None, "it counts"
    if row["reused"]:
        about = facts(count=row["reused"], message_ids=[row["first"]], kind="incident_intent_reuse")
        text = "incident intent_reuse: %d intents have a key that is taken, the first is of event %s"
        log.warning(text, row["reused"], row["first"], extra=about)
    return Opened(int(row["opened"]), bool(row["timed"]))


async def _unpacked_alone(connection: Connection, sql: Statements, key: int) -> Opened:
    """Unpack the first row alone, or put it aside."""
    try:
        return await _unpacked(connection, sql, 1, key)
    except asyncpg.PostgresError as error:
        if not str(error.sqlstate).startswith(_OF_THE_ROW):
            raise
        row = await connection.fetchrow(sql["set_staged_intents_refused"], storable(str(error)))
        if row is None:
            return Opened(0)
        log.error(
            "%d intents of consumer %d cannot be unpacked (row %d), and are put aside until a relay starts: %s",
            row["intents"],
            row["consumer"],
            row["seq"],
            said(error),
        )
        announce("outbox.refused")
        return Opened(int(row["intents"]))


async def unpack_all(connection: Connection, sql: Statements) -> None:
    """Unpack all rows of staged intents that are there now: intents are read after this."""
    last = await connection.fetchval(sql["select_newest_intent_batch"])
    while last is not None and await connection.fetchval(sql["has_packed_intents"], last):
        await unpack_some(connection, sql)
