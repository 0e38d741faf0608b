"""An operator's word that a stream which is not the one read so far is to be read from now on."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.runner.consumers.registry import registration
from projectionist.runner.database.barrier import Busy, alone
from projectionist.runner.database.dead_sessions import SILENT_BEATS
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import ConsumerMissing, StreamInfo
from projectionist.runner.stream_guard import observe
from projectionist.runner.stream_guard.adopt_database import check_ours
from projectionist.runner.stream_guard.checkpoint_store import Floors
from projectionist.runner.stream_guard.verdict import Judgement, judge

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.stream_guard.checkpoint_store import Remembered


MOST_TRIES = 20


class NothingToAdopt(ProjectionistError):
    """The stream is the one that was read so far, and no incident about it is open."""


class Adopted(msgspec.Struct, frozen=True):
    """The decision that was made."""

    consumer: str
    stream: str
    found: str
    """What the stream was found to be."""
    incarnation: int
    again: bool
    """Whether the stream is read from its first message; what is known of it is not applied again."""


class Adoption:
    """The action `adopt`, over a connection in no transaction."""

    def __init__(self, connection: Connection, client: Client, schema: str) -> None:
        self._connection = connection
        self._client = client
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)

    async def adopt(self, consumer: str, act: Act) -> Adopted:
        """Have the consumer read its stream as it is now; raises NothingToAdopt or NotRegistered."""
        row = await registration(self._connection, self._schema, consumer)
        await check_ours(self._connection, self._client, self._schema, row)
        floors = Floors(self._schema, consumer, row["durable"], row["stream"])
        for _ in range(MOST_TRIES):
            remembered = await floors.read(self._connection, SILENT_BEATS, None, None)
            seen = await self._look(row, remembered)
            async with alone(self._connection, self._schema, row["number"], "adopt"):
                now = await floors.read(self._connection, SILENT_BEATS, None, None)
                if (now.known, now.epoch, now.incarnation) == (
                    *(remembered.known, remembered.epoch, remembered.incarnation),
                ):
                    return await self._decide(row, floors, remembered, seen, act)
        raise Busy(f"{consumer!r} goes on all the time", remedy="Pause it, or try again")

    async def _decide(
        self, row: Record, floors: Floors, remembered: Remembered, seen: _StreamSeen, act: Act
    ) -> Adopted:
        judgement, name, stream = seen.judgement, row["name"], row["stream"]
        closed = await self._connection.execute(self._sql["close_stream_incidents"], row["number"])
        if judgement is None or judgement.fact is None:
            if closed.endswith(" 0"):
                raise NothingToAdopt(f"stream {stream!r} is the one {name!r} has read so far")
            adopted = Adopted(name, stream, "as before", remembered.incarnation, again=False)
        elif not judgement.halted or judgement.equal:
            adopted = await self._go_on(row, remembered, seen.stream, judgement)
        else:
            adopted = await self._begin_anew(row, floors, seen, judgement)
        await self._connection.execute(
            self._sql["insert_audit_entry"],
            row["number"],
            "adopt",
            f"{adopted.stream}, {adopted.found}",
            act.actor,
            act.reason,
            msgspec.json.encode(adopted).decode(),
        )
        return adopted

    async def _look(self, row: Record, remembered: Remembered) -> _StreamSeen:
        """Return what the broker has to say, asked while batches go on."""
        stream, created = await api.stream(self._client, row["stream"]), None
        try:
            durable = await api.consumer(self._client, row["stream"], row["durable"])
            created = durable.created
        except ConsumerMissing:
            durable = observe.fresh(stream.created)
        if remembered.known is None:
            return _StreamSeen(stream, created, None)
        seen = await observe.observe_stream(self._client, row["stream"], stream, durable, remembered.known)
        return _StreamSeen(stream, created, judge(remembered.known, seen, restored=False))

    async def _go_on(
        self, row: Record, remembered: Remembered, stream: StreamInfo, judgement: Judgement
    ) -> Adopted:
        """Adopt the content that was read so far: sequences mean what they meant."""
        name, incarnation = row["stream"], remembered.incarnation
        await self._connection.execute(self._sql["set_stream_created"], name, incarnation, stream.created)
        await self._connection.execute(self._sql["increment_epoch"], row["number"])
        return Adopted(row["name"], name, judgement.text, incarnation, again=False)

    async def _begin_anew(
        self, row: Record, floors: Floors, seen: _StreamSeen, judgement: Judgement
    ) -> Adopted:
        """Adopt another content: a new incarnation, of which nothing is settled yet."""
        name, number, stream = row["stream"], row["number"], seen.stream
        await self._connection.execute(
            self._sql["insert_stream_incarnation"], name, stream.created, row["incarnation"]
        )
        incarnation = await floors.follow(self._connection, number, stream.created)
        created = seen.durable_created
        if created is not None and not await observe.seek(self._client, name, row["durable"], 1, back=True):
            created = None
        fresh = observe.unread(stream, created)
        await floors.renew(self._connection, number, incarnation, fresh)
        return Adopted(row["name"], name, judgement.text, incarnation, again=True)


class _StreamSeen(msgspec.Struct):
    stream: StreamInfo
    durable_created: datetime | None
    judgement: Judgement | None
