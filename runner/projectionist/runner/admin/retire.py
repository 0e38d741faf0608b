"""Retire: a consumer is no more. All that is known of it goes; its names are not given to another."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.admin.pause import alone
from projectionist.runner.admin.reset import SILENCE_S
from projectionist.runner.consumers.registry import registration
from projectionist.runner.database.queries import Queries
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import ConsumerMissing, StreamMissing
from projectionist.runner.read_models.generations import drop_positions
from projectionist.runner.read_models.views import dependents, drop_tables, shown, withdraw
from projectionist.runner.stream_guard.adopt_database import check_ours

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection


class CannotRetire(ProjectionistError):
    """The consumer is in use, or something of it is not settled. Nothing was changed."""


class Retired(msgspec.Struct, frozen=True):
    """The things that a retirement takes away."""

    consumer: str
    stream: str
    durable: str
    views: list[str]
    positions: int
    inbox: int
    parked: int
    quarantined: int
    decisions: int
    intents: int
    """All of them settled."""


class Retiring:
    """The action `retire`, over a connection in no transaction."""

    def __init__(self, connection: Connection, client: Client, schema: str) -> None:
        self._connection = connection
        self._client = client
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)
        self._queries = Queries(connection, schema)

    async def plan(self, consumer: str) -> Retired:
        """Return what `retire` would do; raises what it would raise."""
        row = await registration(self._connection, self._schema, consumer)
        await check_ours(self._connection, self._client, self._schema, row)
        async with self._connection.transaction():  # no batch is kept out: `retire` looks once more
            return await self._checked(row)

    async def retire(self, consumer: str, act: Act) -> Retired:
        """Remove the consumer; raises NotRegistered, CannotRetire or Busy.

        Its durable goes first: without it a consumer that stays goes on at its floor, and one that is gone needs none.
        """
        planned = await self.plan(consumer)
        with suppress(ConsumerMissing, StreamMissing):
            await api.drop_consumer(self._client, planned.stream, planned.durable)
        announce("retire.durable_dropped")
        # No process runs it, which is looked at first, so no batch waits; and there may be as many rows as there are.
        async with alone(self._connection, self._schema, consumer, "retire", within_s=None) as row:
            done = await self._checked(row)
            await self._drop(row)
            detail = msgspec.json.encode(done).decode()
            given = (row["number"], "retire", consumer, act.actor, act.reason, detail)
            await self._connection.execute(self._sql["insert_audit_entry"], *given)
            await self._connection.execute(self._sql["delete_consumer"], row["number"], act.actor, act.reason)
            announce("retire.written")
        return done

    async def _checked(self, row: Record) -> Retired:
        name = row["name"]
        if row["build"] is not None:
            raise CannotRetire(
                f"a build of {name} is open", remedy="Finish it, or `projectionist rebuild --abort`"
            )
        running = await self._connection.fetchval(self._sql["count_live_runners"], row["number"], SILENCE_S)
        if running:
            raise CannotRetire(
                f"{running} processes run {name}",
                remedy="Take it out of the app, deploy that, and retire it then",
            )
        await self._connection.execute("set local statement_timeout = 0")
        facts = await self._connection.fetchrow(self._sql["select_retirement_facts"], row["number"])
        assert facts is not None, "it counts"
        if facts["unsettled"]:
            raise CannotRetire(
                f"{facts['unsettled']} intents of {name} are not settled",
                remedy=f"Have a relay send them, or `projectionist outbox discard --consumer {name} --all --reason …`",
            )
        views = [
            name
            for one in await self._views(row)
            for name in sorted(await shown(self._queries, one["view"], one["generation"]))
        ]
        counts = {key: facts[key] for key in Retired.__struct_fields__ if key in facts}
        return Retired(consumer=name, stream=row["stream"], durable=row["durable"], views=views, **counts)

    async def _drop(self, row: Record) -> None:
        """Drop the views and the tables of all generations; refused while something of the user's stands on them."""
        for one in await self._views(row):
            await self._drop_view(one)

    async def _views(self, row: Record) -> list[Record]:
        """Return the views that may have tables, whether batches write them or not."""
        rows = await self._queries.rows("select_consumer_views", row["name"])
        return [one for one in rows if one["kind"] != Kind.REACTOR and await self._is_made(one)]

    async def _is_made(self, row: Record) -> bool:
        """Return whether a view has ever had tables: one that has not joined its set yet has none."""
        return await self._queries.row("select_generation", row["view"], row["generation"]) is not None

    async def _drop_view(self, row: Record) -> None:
        number = row["view"]
        for view in (await shown(self._queries, number, row["generation"])).values():
            if dependent := await dependents(self._queries, view):
                raise CannotRetire(
                    f"{', '.join(dependent)} depends on {view.schema}.{view.name}",
                    remedy="Drop what depends on it",
                )
            await withdraw(self._queries, view)
        for one in await self._queries.rows("select_generations", number):
            if one["state"] != "dropped":
                await drop_tables(self._queries, number, one["generation"])
                if one["build"] is not None:
                    await drop_positions(self._queries, one["build"])
