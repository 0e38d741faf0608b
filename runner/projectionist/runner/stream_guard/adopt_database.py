"""An operator's word that this database is the real one: its schema is at home here, and its durables are its own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres import database_identity as owners
from projectionist.core.postgres.database_identity import Likeness, Owner, likeness
from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import ConsumerMissing, StreamMissing
from projectionist.runner.jetstream.durable_owner import DurableMark, DurableOwner, refuse, whose

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.postgres.database_identity import Place


class NothingToTake(ProjectionistError):
    """This database is the real one already, or takes no writes."""


class AdoptionResult(msgspec.Struct, frozen=True):
    """The decision that was made."""

    database: str
    """Where the schema is at home from now on."""
    before: str | None
    """Where it was; None where no process had run on it."""
    durables: list[str]
    """What was another database's until now."""


async def check_ours(connection: Connection, client: Client, schema: str, row: Record) -> None:
    """Refuse a durable that is another database's, before it is moved; raises Elsewhere or NotOurs."""
    durable_mark = DurableMark(await owners.owner(connection, schema), row["number"], row["name"])
    with suppress(ConsumerMissing, StreamMissing):
        found = await api.consumer(client, row["stream"], row["durable"])
        refuse(durable_mark, row["stream"], row["durable"], found.config.metadata)


class Takeover:
    """The action `adopt --database`, over a connection in no transaction."""

    def __init__(self, connection: Connection, client: Client, schema: str) -> None:
        self._connection = connection
        self._client = client
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)

    async def adopt(self, act: Act) -> AdoptionResult:
        """Have this database read and send from now on; raises NothingToTake.

        Whoever ran on another one finds within a heartbeat that its durables are taken, and halts. The database is
        moved before the durables: a takeover that was cut off in between is finished by another call.
        """
        here = await owners.place(self._connection, Statements("projectionist.core", self._schema))
        if here is None:
            raise NothingToTake("this database takes no writes", remedy="Promote it first")
        before = await owners.recorded(self._connection, self._schema)
        rows = await self._connection.fetch(self._sql["select_consumers"])
        theirs = [row for row in rows if before is None or await self._is_taken(row, before)]
        if before is not None and not theirs and likeness(before.place, here) is not Likeness.OTHER:
            raise NothingToTake(f"this database, {here}, is the real one already")
        async with self._connection.transaction():
            owner = await self._move(before, here)
            taken = AdoptionResult(
                str(here), None if before is None else str(before.place), [r["durable"] for r in theirs]
            )
            given = (act.actor, act.reason, msgspec.json.encode(taken).decode())
            await self._connection.execute(self._sql["insert_database_adoption"], *given)
        announce("takeover.moved")
        for row in rows:
            await self._name(row, owner)
        return taken

    async def _move(self, before: Owner | None, here: Place) -> Owner:
        """Move under a new token, even where it was at home: what bore the old one may be in other hands."""
        if before is not None:
            await owners.move(self._connection, before, here, follow=False)
        return await owners.owner(self._connection, self._schema)

    async def _is_taken(self, row: Record, owner: Owner) -> bool:
        found = await self._durable(row)
        durable_mark = DurableMark(owner, row["number"], row["name"])
        return found is not None and whose(durable_mark, found.config.metadata) is DurableOwner.THEIRS

    async def _name(self, row: Record, owner: Owner) -> None:
        found = await self._durable(row)
        if found is not None:
            metadata = DurableMark(owner, row["number"], row["name"]).metadata(found.config.metadata)
            await api.change_consumer(self._client, row["stream"], row["durable"], {"metadata": metadata})

    async def _durable(self, row: Record) -> api.DurableInfo | None:
        try:
            return await api.consumer(self._client, row["stream"], row["durable"])
        except (ConsumerMissing, StreamMissing):
            return None
