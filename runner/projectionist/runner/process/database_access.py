"""What a process asks and tells the database outside of batches, over a few connections that all consumers share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
import asyncpg
import msgspec

from projectionist.core import clock
from projectionist.core.postgres.connections import advisory_key
from projectionist.core.postgres.database_identity import DatabaseCopied, owner
from projectionist.core.postgres.leases import Leases
from projectionist.core.postgres.rights import Duty, OwnerNeeded, ownership, refusal
from projectionist.core.postgres.statements import Statements
from projectionist.core.states import IncidentKind
from projectionist.core.testpoints import announce
from projectionist.runner.batch.lookup_reader import LookupReader
from projectionist.runner.batch.retry_policy import SLOWLY, slow
from projectionist.runner.batch.shared_pool import SharedPool
from projectionist.runner.consumers.header_mapping import disagreement
from projectionist.runner.consumers.registry import INSTANCE, Registry
from projectionist.runner.database.chores import FailureBook
from projectionist.runner.database.queries import Queries
from projectionist.runner.jetstream.durable_owner import DurableMark
from projectionist.runner.pipeline.crash_guard import any_crashed, is_alive
from projectionist.runner.read_models.generations import expired, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from asyncpg import Record

    from projectionist.core.errors import ProjectionistError
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Policy
    from projectionist.projections.compiled.definition import ConsumerDefinition, Definition
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.jetstream.api import StreamInfo

log = logging.getLogger("projectionist.runner")

MERGED = 50
"""So many rows of counts may stand beside each other before they are added up."""
SWEPT_S = 240.0
"""After this time another process may look for generations to drop; each looks every five minutes."""


class DatabaseAccess(SharedPool):
    """Registration, heartbeats and re-arming, each on a connection lent for the moment."""

    def __init__(
        self,
        pool: asyncpg.Pool[Record],
        schema: str,
        *,
        allow_older_code: bool = False,
        heartbeat_s: float = 5,
        wake: Callable[[], None] = lambda: None,
        lends_sessions: bool = False,
    ) -> None:
        super().__init__(pool, schema, heartbeat_s)
        self.wake = wake
        """Called after a commit that wrote intents: relays need not find them by polling."""
        self.lends_sessions = lends_sessions
        """Whether a pooler lends batches a session for each."""
        self.broken_off: set[int] = set()
        """The runners of this process that an error ended in the middle of their work."""
        self.trial = anyio.Lock()
        """Held while something is tried that may have ended a process: one at a time, whichever consumer has it."""
        self.book = FailureBook()
        """The chores of this process that fail."""
        self._sql = Statements("projectionist.runner", schema)
        self._allow_older_code = allow_older_code
        self._joined: set[str] = set()
        self.waits_for_owner: dict[str, OwnerNeeded] = {}
        """By consumer: kept generations whose time is over, which this role cannot drop."""
        self.not_joined: dict[tuple[str, str], Exception] = {}
        """Why views, by their set and their names, have not joined it so far."""
        self._theirs = clock.Other()
        self.setbacks = 0
        """How often PostgreSQL's clock has gone back."""

    async def registration(self, definition: ConsumerDefinition) -> list[Record]:
        """Return the registration of each of its views; raises NotRegistered where class and database disagree."""
        async with self.lend() as connection:
            return await Registry(connection, self.schema).checked(definition)

    async def joining(self, definition: ConsumerDefinition) -> list[Definition]:
        """Return those of its views that are built before batches write them."""
        async with self.lend() as connection:
            rows = await connection.fetch(self._sql["select_joining_views"], definition.name)
        names = {row["name"] for row in rows}
        return [view for view in definition.views if view.name in names]

    async def join(
        self, definition: ConsumerDefinition, policy: Policy, stream: StreamInfo, *, early: bool = False
    ) -> Consumer:
        """Join the processes that run this consumer; `early`: this one was there before the stream."""
        # Once: when it joins again after an outage, newer code may have taken over meanwhile.
        allow_older_code = self._allow_older_code and definition.name not in self._joined
        async with self.lend() as connection, self.peers.terminating_blockers(connection.get_server_pid()):
            # Whoever froze under a clock that has gone back since would look alive for as long.
            await connection.execute(self._sql["bring_heartbeats_back"])
            registry = Registry(connection, self.schema)
            consumer = await registry.join(
                definition, policy, stream, early=early, allow_older_code=allow_older_code
            )
        self._joined.add(definition.name)
        return consumer

    async def header_disagreement(self, consumer: Consumer) -> str:
        """Return what the live processes of a consumer read from different headers; empty where they agree."""
        async with self.lend() as connection:
            rows = await connection.fetch(
                self._sql["select_header_mappings"], consumer.number, self.peers.silence_s
            )
        return disagreement((row["process"], msgspec.json.decode(row["headers"])) for row in rows)

    async def is_breaker_open(self, definition: ConsumerDefinition) -> bool:
        """Return whether the consumer's breaker lets nobody try anything now."""
        async with self.lend() as connection:
            return bool(await connection.fetchval(self._sql["is_consumer_breaker_open"], definition.name))

    async def durable_mark(self, number: int, consumer: str) -> DurableMark:
        """Return what the consumer's durable is to bear; raises DatabaseCopied, on record, if this database is a
        copy."""
        async with self.lend() as connection:
            try:
                return DurableMark(await owner(connection, self.schema), number, consumer)
            except DatabaseCopied as error:
                await self._open(connection, number, IncidentKind.DATABASE_COPIED, error)
                raise

    async def taken(self, number: int, error: ProjectionistError) -> None:
        """Put on record that the consumer's durable belongs to another database."""
        async with self.lend() as connection:
            await self._open(connection, number, IncidentKind.DURABLE_TAKEN, error)

    async def _open(
        self, connection: Connection, number: int, fact: IncidentKind, error: ProjectionistError
    ) -> None:
        await connection.execute(self._sql["open_or_reopen_incident"], number, fact, 0, 0, str(error), None)
        announce(f"owner.{fact}")

    async def merge_counts(self, consumer: Consumer, *, anew: bool) -> None:
        """Add up what batches have counted of what waits, or count it `anew`; nothing while another process does."""
        lock = advisory_key(self.schema, f"counts {consumer.number}")
        async with self.store(consumer) as store, store.connection.transaction():
            await store.enter()  # whoever takes all of a consumer away has it alone
            if not await store.connection.fetchval(self._sql["try_lock_counts"], lock):
                return
            await (store.run("count_anew") if anew else store.run("merge_counts", MERGED))

    async def settle_incidents(self, consumer: Consumer) -> None:
        """Close incidents that have been refuted, or settled by an act on what they are about. Whoever serves the
        consumer has opened its durable as ours, so what was told of other hands is over."""
        async with self.store(consumer) as store:
            closed = await store.rows("close_settled_incidents")
        for row in closed:
            log.info(
                "%s: incident %d (%s) is closed: %s",
                consumer.definition.name,
                row["number"],
                row["kind"],
                row["settled"],
            )

    async def drop_expired_generations(self, consumer: Consumer) -> None:
        """Drop generations that were kept long enough; one process at a time does so."""
        async with self.lend() as connection:
            if await self._leaves_to_owner(connection, consumer):
                return
            leases, name = Leases(self.schema, str(INSTANCE)), f"sweep:{consumer.number}"
            if await leases.acquire(connection, name, SWEPT_S) is not None:
                queries = Queries(connection, self.schema)
                for row in await queries.rows("select_consumer_views", consumer.definition.name):
                    await sweep(queries, row["view"])

    async def _leaves_to_owner(self, connection: Connection, consumer: Consumer) -> bool:
        """Return whether this role may not drop tables; what is over then stands on the board until it is dropped."""
        name, found = consumer.definition.name, await ownership(connection, self.schema)
        queries, over = Queries(connection, self.schema), list[int]()
        rows = () if found.owns else await queries.rows("select_consumer_views", name)
        for row in rows:
            over += await expired(queries, row["view"])
        if not over:
            self.waits_for_owner.pop(name, None)
        elif name not in self.waits_for_owner:
            self.waits_for_owner[name] = told = OwnerNeeded(
                f"generations that were kept long enough ({', '.join(map(str, over))}) wait for their owner, "
                f"{found.owner!r}: role {found.role!r} may not drop them",
                remedy=f"Run `projectionist purge APP` as {found.owner}",
            )
            log.warning("%s: %s", name, told)
            announce("sweep.left")
        return not found.owns

    async def check_lookups(self, definition: Definition) -> None:
        """Raise LookupUnavailable where handlers look up a table that cannot be read as it is declared."""
        if definition.references:
            async with self.lend() as connection:
                await LookupReader(connection, definition).check()

    async def refused_to_build(self, views: Sequence[Definition]) -> OwnerNeeded | None:
        """Return why this process cannot build generations of these views; None where it can."""
        async with self.lend() as connection:
            found = await ownership(connection, self.schema)
        if found.owns:
            return None
        names = " ".join(view.full_name for view in views)
        return OwnerNeeded(
            f"{names}, revision {views[0].revision}, waits to be built by {found.owner!r}, who owns the tables: "
            f"role {found.role!r} may not make one",
            remedy=f"Run `projectionist rebuild APP {names}` with this code as {found.owner}",
        )

    async def explained(self, error: Exception) -> Exception:
        """Return what an error means: of a refusal by PostgreSQL which right is missing, and who gives it."""
        if not isinstance(error, asyncpg.InsufficientPrivilegeError):
            return error
        try:
            async with self.lend() as connection:
                return await refusal(connection, self.schema, error, Duty.RUNNER) or error
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return error

    async def beat(self, runner: int, *facts: object) -> None:
        """Write a heartbeat; while PostgreSQL takes no writes this is a try like any other."""
        await self.gates.use.wait_turn()
        async with self.at_once() as connection:
            try:
                asked = clock.now()
                said = await connection.fetchval(self._sql["update_heartbeat"], runner, *facts)
            except asyncpg.PostgresError as error:
                if self.gates.refused(
                    error, beat=True
                ):  # a session of another time may see what new ones do not
                    await self._pool.expire_connections()
                raise
        self.gates.wrote(beat=True)
        gone_s = 0.0 if said is None else self._theirs.gone_back(said, asked)
        if gone_s:
            self.setbacks += 1
            log.warning(
                "PostgreSQL's clock went back by %.0f s; leases and waits written by the old one were shortened",
                gone_s,
            )
            announce("clock.back")

    async def shorten_waits(self, consumer: Consumer) -> None:
        """Let nothing wait for longer than it may, whatever the clock was by which that was written."""
        async with self.lend() as connection:
            await connection.execute(self._sql["bring_heartbeats_back"])
            policy = consumer.policy.retry
            longest = policy.maximum_s, slow(policy).maximum_s, sorted(SLOWLY)
            await connection.execute(self._sql["shorten_future_dues"], consumer.number, *longest)

    async def has_crashed_peers(self, consumer: Consumer) -> datetime | None:
        """Return by when a process of this consumer has ended in the middle of its work, not long ago; None if none
        has."""
        async with self.lend() as connection:
            rows = await connection.fetch(
                self._sql["select_unclean_runners"], consumer.number, consumer.runner
            )
        return any_crashed(rows, self.peers.silence_s, is_alive, self.broken_off)

    async def has_open_baselines(self, consumer: Consumer) -> bool:
        """Return whether aggregates of this consumer may still wait for a first version."""
        async with self.lend() as connection:
            return bool(
                await connection.fetchval(self._sql["has_aggregates_without_first_event"], consumer.number)
            )
