"""Looks for events that live has applied and the stream no longer holds: aged out, purged, erased, of another stream.

A stream of the first incarnation that begins at 1 and has lost no message has no holes, which one request tells.
Elsewhere stream and inbox are read beside each other, both in the order of sequences; where retention has removed inbox
rows, versions have to lead to where live stands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Container, Sequence
from contextlib import aclosing
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec
from anyio.lowlevel import checkpoint

from projectionist.core.testpoints import announce
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.batch.planning import CONTIGUOUS, UNORDERED
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.history.applied_filter import AggregateProgress
from projectionist.runner.history.unknown_rows import Lost, MetVersions, UnknownRows
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_reader import scan, sequence

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.nats.fast_client import Arrival
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.jetstream.api import StreamInfo

Take = Callable[[Lost], bool]
"""Takes an event that is lost; False where no more need be looked for."""


class HistoryGone(RebuildError):
    """The stream no longer holds events that made live rows: what is left of them does not make these rows."""


class HistoryScope(msgspec.Struct, frozen=True):
    """The part of a stream that a consumer reads."""

    consumer: int
    incarnation: int
    stream: str
    filter_subject: str


def is_whole(stream: StreamInfo, incarnation: int) -> bool:
    """Return whether the stream holds every message that it ever took, and is the first of its name."""
    state = stream.state
    return incarnation == 1 and state.first_seq <= 1 and state.messages == state.last_seq


async def holes_of(
    queries: Queries, client: Client, consumer: Consumer, keys: Sequence[Any] = ()
) -> UnknownRows:
    """Return which rows cannot be told; asked only about these keys it may read less.

    Messages that are removed while it looks count as lost. Raises HistoryGone where the stream is another one.
    """
    definition, holes = consumer.view.definition, UnknownRows(consumer.view.definition)
    aggregates, filter_subject = _aggregates(consumer, keys)
    if keys and aggregates == []:
        return holes  # no event was ever applied to rows of their own
    stream = await api.stream(client, definition.stream)
    purged_from = await forgotten_from(queries, consumer.number, stream, definition.stream)

    def take(lost: Lost) -> bool:
        holes.add(lost)
        return holes.everywhere is None

    if not is_whole(stream, consumer.incarnation):
        read = HistoryScope(consumer.number, consumer.incarnation, definition.stream, filter_subject)
        await _look(queries, client, consumer, read, aggregates or [], purged_from, take)
    announce("history.looked")
    return holes


def _aggregates(consumer: Consumer, keys: Sequence[Any]) -> tuple[list[str] | None, str]:
    """Return the aggregates that alone can have touched these rows, and what lets their messages through; None: any."""
    subjects = consumer.view.definition.subjects
    if not keys or not is_own(consumer):
        return None, subjects.filter
    kind, table = consumer.view.own_type, consumer.view.definition.table
    if kind is None or table is None or table.key is None:
        return [], subjects.filter
    ids = list(dict.fromkeys(str(table.key.group(key)) for key in keys))
    chosen = subjects.subject_for(kind, ids[0]) if len(ids) == 1 else None
    return [f"{kind}/{one}" for one in ids], chosen or subjects.filter


def is_own(consumer: Consumer) -> bool:
    """Return whether every row belongs to one aggregate, by whose id it is found."""
    definition = consumer.view.definition
    return all(handler.own for handler in definition.handlers.values()) and definition.sequence != UNORDERED


async def forgotten_from(queries: Queries, consumer: int, stream: StreamInfo, name: str) -> int | None:
    """Return the lowest sequence of which retention has removed an inbox row; 0: of an earlier stream, None: none.

    Raises HistoryGone where the stream of this name is not the one that was read.
    """
    facts = await queries.row("select_stream_facts", consumer)
    assert facts is not None, "it is registered"
    if facts["created"] not in (None, stream.created):
        raise HistoryGone(
            f"stream {name} was created at {stream.created}: it is not the one that was read",
            remedy="Start the consumer, which judges it; `projectionist incidents list` says what to decide",
        )
    found: int | None = facts["purged_from"]
    return found


async def _look(
    queries: Queries,
    client: Client,
    consumer: Consumer,
    read: HistoryScope,
    aggregates: Sequence[str],
    purged_from: int | None,
    take: Take,
) -> None:
    forgotten = purged_from is not None and (consumer.sequence != CONTIGUOUS or not purged_from)
    if forgotten and not take(Lost()):  # of what, is not known any more
        return
    versions = None if purged_from is None else await _versions(queries, consumer, aggregates)
    if await lost(queries, client, read, take, aggregates, versions) and versions is not None:
        for one in versions.reached.missing():
            if not take(one):
                return


async def lost(
    queries: Queries,
    client: Client,
    read: HistoryScope,
    take: Take,
    aggregates: Sequence[str] = (),
    versions: _Versions | None = None,
) -> bool:
    """Give what is in the inbox and no longer in the stream to `take`; False if it has had enough.

    The stream is read beside the inbox in one snapshot, both in the order of sequences: memory for a block of each.
    """
    async with queries.connection.transaction(isolation="repeatable_read", readonly=True):
        await queries.connection.execute("set local idle_in_transaction_session_timeout = 0")
        stream = await api.stream(client, read.stream)
        first, last = max(1, stream.state.first_seq), stream.state.last_seq
        given = (read.consumer, first, read.incarnation, list(aggregates))
        async for row in queries.cursor("select_first_events_before", *given):
            if not take(_lost(row)):
                return False
        blocks = scan(client, read.stream, read.filter_subject, first, last, headers_only=versions is None)
        async with aclosing(blocks):
            met = _Met(blocks, versions)
            async for row in queries.cursor("select_applied_events", *given):
                if not await met.has(row["seq"]) and not take(_lost(row)):
                    return False
            if versions is not None:
                await met.rest()
    return True


async def _versions(queries: Queries, consumer: Consumer, aggregates: Sequence[str]) -> _Versions:
    """Return what reads versions, from where aggregates begin to where they stand."""
    tracks: dict[str, AggregateProgress] = {}
    async with queries.connection.transaction(isolation="repeatable_read", readonly=True):
        positions = (
            queries.cursor("select_positions", consumer.number, aggregates)
            if aggregates
            else queries.cursor("select_all_positions", consumer.number)
        )
        async for row in positions:
            tracks[row["aggregate"]] = AggregateProgress(consumer.start, row["version"])
        apart = await queries.rows(
            "select_unapplied_sequences", consumer.number, 2**62, False, consumer.incarnation
        )
        decisions = Decisions(await queries.rows("select_decisions", consumer.number))
    return _Versions(consumer, MetVersions(tracks, decisions), decisions, {row["seq"] for row in apart})


class _Versions:
    """Reads messages for their versions."""

    def __init__(
        self, consumer: Consumer, reached: MetVersions, decisions: Decisions, apart: Container[int]
    ) -> None:
        self.reached = reached
        self._read = decisions.reading(consumer.reader)
        self._holds = decisions.holds
        self._apart = apart

    def take(self, arrival: Arrival) -> None:
        """Note its version, if it is one that live may have applied."""
        one = self._read(arrival)
        if isinstance(one, Delivery) and one.seq not in self._apart and self._holds(one):
            self.reached.meet(one.aggregate or "", one.version or 0)


class _Met:
    """The sequences that the stream holds, asked for in their order."""

    def __init__(self, blocks: AsyncIterator[list[Arrival]], versions: _Versions | None) -> None:
        self._blocks = blocks
        self._versions = versions
        self._seqs: set[int] = set()
        self._upto = 0.0

    async def has(self, seq: int) -> bool:
        """Return whether it holds this one, which is none before those asked for already."""
        while self._upto < seq:
            await self._next()
        return seq in self._seqs

    async def rest(self) -> None:
        """Read on to the end."""
        while self._upto < inf:
            await self._next()

    async def _next(self) -> None:
        block: list[Arrival] = await anext(self._blocks, [])
        self._seqs = set(map(sequence, block))
        self._upto = max(self._seqs, default=inf)
        if self._versions is not None:
            for arrival in block:
                self._versions.take(arrival)
            await checkpoint()


def _lost(row: Record) -> Lost:
    return Lost(row["aggregate"], row["version"], row["seq"], row["type"])
