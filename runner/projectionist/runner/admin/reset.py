"""Reset: a consumer starts as new. Its rows, positions, inbox and parked events go; its decisions stay."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

import asyncpg
import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.statements import Statements
from projectionist.core.printable_text import join_first
from projectionist.core.testpoints import announce
from projectionist.outbox.intents.staging import unpack_all
from projectionist.projections.compiled.definition import Kind
from projectionist.runner.admin.pause import alone
from projectionist.runner.consumers.registry import registration
from projectionist.runner.database.barrier import Busy
from projectionist.runner.database.dead_sessions import SILENT_BEATS
from projectionist.runner.database.queries import Queries
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import ConsumerMissing, StreamInfo
from projectionist.runner.read_models.generations import drop
from projectionist.runner.read_models.views import table_names
from projectionist.runner.rebuild.plan import losing_aggregates
from projectionist.runner.stream_guard import observe
from projectionist.runner.stream_guard.adopt_database import check_ours
from projectionist.runner.stream_guard.checkpoint_store import Floors

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection

SILENCE_S = 5.0 * SILENT_BEATS
"""A process that has not beaten for so long does not run the consumer any more."""


class CannotReset(ProjectionistError):
    """The consumer is in use, or its rows could not be made again. Nothing was changed."""


class ResetEffects(msgspec.Struct, frozen=True):
    """The things that a reset takes away, and from where on the consumer's effects are real again."""

    consumer: str
    stream: str
    tables: list[str]
    positions: int
    inbox: int
    parked: int
    decisions: int
    """Recorded decisions, which are repeated."""
    effects_from: int
    scheduled: int
    """Intents that wait for their time."""
    kept: bool
    """They are kept, or nobody has said what is to become of them."""


Outstanding = Literal["keep", "discard"]


class Resetting:
    """The action `reset`, over a connection in no transaction."""

    def __init__(self, connection: Connection, client: Client, schema: str) -> None:
        self._connection = connection
        self._client = client
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)
        self._queries = Queries(connection, schema)

    async def plan(
        self, consumer: str, *, partial: bool = False, scheduled: Outstanding | None = None
    ) -> ResetEffects:
        """Return what `reset` would do; raises what it would raise."""
        seen = await self._seen(consumer)
        async with self._connection.transaction():  # no batch is kept out: `reset` looks once more
            return await self._checked(seen.row, seen, partial=partial, scheduled=scheduled)

    async def reset(
        self, consumer: str, act: Act, *, partial: bool = False, scheduled: Outstanding | None = None
    ) -> ResetEffects:
        """Start the consumer as new, in one transaction; raises NotRegistered, CannotReset or Busy.

        It has to be paused, or run by no process. `partial`: although the stream has lost events that were applied.
        `scheduled`: what becomes of intents that wait for their time, which has to be said where there are any.
        """
        seen = await self._seen(consumer)
        # No process runs it or it is paused, which is looked at first, so no batch waits; and there may be as many
        # rows as there are.
        async with alone(self._connection, self._schema, consumer, "reset", within_s=None) as row:
            done = await self._checked(row, seen, partial=partial, scheduled=scheduled)
            try:
                await self._empty(row, done)
            except asyncpg.LockNotAvailableError:
                raise Busy(
                    f"a session has been reading the rows of {consumer} for longer than lock_s; nothing was changed",
                    remedy="Try again when that transaction is over; pg_stat_activity names it",
                ) from None
            await self._begin(row, seen)
            detail = msgspec.json.encode(done).decode()
            given = (row["number"], "reset", consumer, act.actor, act.reason, detail)
            await self._connection.execute(self._sql["insert_audit_entry"], *given)
            announce("reset.written")
        announce("reset.done")
        return done

    async def _seen(self, consumer: str) -> _BrokerSeen:
        """Return what the broker has to say, asked while no batch waits."""
        row = await registration(self._connection, self._schema, consumer)
        await check_ours(self._connection, self._client, self._schema, row)
        await unpack_all(self._connection, Statements("projectionist.outbox", self._schema))
        stream = await api.stream(self._client, row["stream"])
        lost = await losing_aggregates(self._queries, self._client, row, stream)
        try:
            durable = await api.consumer(self._client, row["stream"], row["durable"])
        except ConsumerMissing:
            return _BrokerSeen(row, stream, None, lost)
        return _BrokerSeen(row, stream, durable.created, lost)

    async def _checked(
        self, row: Record, seen: _BrokerSeen, *, partial: bool, scheduled: Outstanding | None
    ) -> ResetEffects:
        await self._check(row, seen, partial=partial)
        await self._connection.execute("set local statement_timeout = 0")
        done = await self._emptied(row, seen.stream, kept=scheduled != "discard")
        if done.scheduled and scheduled is None:
            raise CannotReset(
                f"{done.scheduled:,} intents of {done.consumer} wait for their time, and after a reset no event that "
                "is in the stream now takes one back",
                remedy="Say what becomes of them: --scheduled keep, or --scheduled discard",
            )
        return done

    async def _check(self, row: Record, seen: _BrokerSeen, *, partial: bool) -> None:
        name, number = row["name"], row["number"]
        if row["build"] is not None:
            raise CannotReset(
                f"a build of {name} is open", remedy="Finish it, or `projectionist rebuild --abort`"
            )
        running = await self._connection.fetchval(self._sql["count_live_runners"], number, SILENCE_S)
        if running and not row["paused"]:
            raise CannotReset(
                f"{running} processes run {name}", remedy=f"`projectionist pause {name} --reason …` first"
            )
        if seen.lost and not partial:
            raise CannotReset(
                f"stream {row['stream']}, which begins at sequence {seen.stream.state.first_seq}, no longer holds "
                f"events that {name} has applied: {join_first(seen.lost)}",
                remedy="Restore the stream, or accept with --partial that they are missing from then on",
            )

    async def _emptied(self, row: Record, stream: StreamInfo, *, kept: bool) -> ResetEffects:
        tables = []
        for view in await self._views(row):
            tables += await table_names(self._queries, view["view"], view["generation"])
        facts = await self._connection.fetchrow(self._sql["select_reset_facts"], row["number"])
        assert facts is not None, "it counts"
        if facts["forgotten"]:
            raise CannotReset(
                f"{facts['forgotten']:,} events were applied as somebody had corrected them, and the corrections are "
                "no longer kept: they would come as they were before",
                remedy="Erase those events, or leave the consumer as it is (decision_payload_retention_s)",
            )
        return ResetEffects(
            consumer=row["name"],
            stream=row["stream"],
            tables=tables,
            positions=facts["positions"],
            inbox=facts["inbox"],
            parked=facts["parked"],
            decisions=facts["decisions"],
            effects_from=stream.state.last_seq + 1,
            scheduled=facts["scheduled"],
            kept=kept,
        )

    async def _empty(self, row: Record, done: ResetEffects) -> None:
        number = row["number"]
        for view in await self._queries.rows("select_consumer_views", row["name"]):
            for kept in await self._queries.rows("select_generations", view["view"]):
                # It stands further than the set from now on, also of a view that batches leave out.
                if kept["state"] == "kept" and (view["state"] == "live" or kept["build"] is not None):
                    await drop(self._queries, view["view"], kept["generation"])
        if done.tables:
            await self._truncate(done.tables)
        await self._connection.execute(self._sql["delete_consumer_state"], number)
        if not done.kept:
            await self._connection.execute(self._sql["discard_scheduled_intents"], number)
        await self._connection.execute(self._sql["requeue_released_quarantine"], number, row["incarnation"])
        await self._connection.execute(self._sql["close_consumer_breaker"], number)
        await self._connection.execute(self._sql["reset_control_row"], number, done.effects_from)

    async def _views(self, row: Record) -> list[Record]:
        """Return the views with rows that begin anew: those that batches write."""
        rows = await self._queries.rows("select_consumer_views", row["name"])
        return [one for one in rows if one["kind"] != Kind.REACTOR and one["state"] == "live"]

    async def _truncate(self, tables: list[str]) -> None:
        try:
            await self._connection.execute(f"truncate {', '.join(tables)}")
        except asyncpg.FeatureNotSupportedError as error:
            raise CannotReset(
                f"{error.detail or error}: its rows would be without those they refer to",
                remedy="Drop that foreign key: read models are to be read by their views",
            ) from error

    async def _begin(self, row: Record, seen: _BrokerSeen) -> None:
        """Have the durable deliver from the stream's first message."""
        floors = Floors(self._schema, row["name"], row["durable"], row["stream"])
        created, durable = seen.durable_created, (row["stream"], row["durable"])
        if created is not None and not await observe.seek(self._client, *durable, 1, back=True):
            created = None
        fresh = observe.unread(seen.stream, created)
        await floors.renew(self._connection, row["number"], row["incarnation"], fresh)


class _BrokerSeen(msgspec.Struct):
    row: Record
    stream: StreamInfo
    durable_created: datetime | None
    lost: list[str]
    """Aggregates of which the stream no longer holds everything."""
