"""The connection a consumer's batches run on: opened when needed, replaced after an outage, each change told once."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from hashlib import blake2b
from typing import TYPE_CHECKING

import anyio
import asyncpg

from projectionist.core import clock
from projectionist.core.postgres.connections import connect
from projectionist.core.postgres.error_text import said
from projectionist.core.postgres.pooled_session import is_lent
from projectionist.core.testpoints import announce
from projectionist.runner.batch.inbox_store import InboxStore
from projectionist.runner.batch.warm_up import WARM_UPS, warm_up
from projectionist.runner.database.availability import Gates
from projectionist.runner.database.barrier import barrier_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Postgres
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.handlers import Model
    from projectionist.runner.database.dead_sessions import DeadSessions

log = logging.getLogger("projectionist.runner")

CLOSING_S = 2.0
LOCK_TIMEOUT = "55P03"
_KEEP = frozenset({"40001", "40P01", LOCK_TIMEOUT, "57014", "0A000"})
"""The statement was refused or took too long; the connection is as good as before."""


class BatchSession:
    """One connection, and the store and model that work on it."""

    def __init__(
        self,
        consumer: Consumer,
        settings: Postgres,
        model: Callable[[Connection, Consumer], Model],
        *,
        gates: Gates | None = None,
        peers: DeadSessions | None = None,
        arrive: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> None:
        """Open nothing yet; `arrive` looks at the database behind every new connection, and raises if it is not the one
        we left."""
        self._consumer = consumer
        self._settings = settings
        self._model = model
        self._gates = Gates() if gates is None else gates
        self._peers = peers
        self._arrive = arrive
        self._open: tuple[Connection, InboxStore, Model] | None = None
        self._warmed: Connection | None = None
        self._warm_ups = 0
        self._ill_since: float | None = None
        self._failures = 0
        self._logged = self._waited = False

    @property
    def backend_pid(self) -> int | None:
        """Return the PostgreSQL process behind the connection, for whoever has to end it if this process hangs; None
        where each transaction has another."""
        if self._open is None or is_lent(self._open[0]):
            return None
        return self._open[0].get_server_pid()

    @property
    def schema(self) -> str:
        """Return the schema of our own tables."""
        return self._settings.schema

    @property
    def is_failing(self) -> bool:
        """Return whether the last batch could not be committed, for no fault of its own."""
        return self._ill_since is not None

    @property
    def is_throttled(self) -> bool:
        """Return whether the next try waits for its turn among all of this process."""
        return self._gates.closed

    async def ready(self) -> tuple[InboxStore, Model]:
        """Return a store and a model on a live connection; while PostgreSQL cannot be used, when it is our turn to
        try."""
        await self._gates.use.wait_turn()
        if self._open is None or self._open[0].is_closed():
            connection = await self._gates.connect(self._connect)
            try:
                if self._arrive is not None:
                    await self._arrive(connection)
            except BaseException:
                connection.terminate()
                raise
            store = store_of(connection, self._settings.schema, self._consumer.number)
            self._open = connection, store, self._model(connection, self._consumer)
        return self._open[1:]

    async def warm(self) -> None:
        """Open a connection where there is none, and warm it up, while no batch waits; to be called again whenever
        that is so. Where it does not go, the next batch meets the same, and is answered for it."""
        if self._gates.closed or self._is_warm():
            return
        try:
            store, model = await self.ready()
            if is_lent(store.connection):  # what is prepared there, the next transaction does not find
                self._warmed, self._warm_ups = store.connection, WARM_UPS
                return
            if self._warmed is not store.connection:
                self._warmed, self._warm_ups = store.connection, 0
            usual = store.usual(intents=bool(self._consumer.definition.intents))
            await warm_up(store.connection, [*usual, *model.usual])
        except Exception as error:  # noqa: BLE001  whatever it is
            if not isinstance(error, asyncpg.PostgresError):
                await self.close()
            self._warm_ups = WARM_UPS
        else:
            self._warm_ups += 1
            announce("session.warmed")

    def _is_warm(self) -> bool:
        here = None if self._open is None else self._open[0]
        return (
            here is not None and here is self._warmed and not here.is_closed() and self._warm_ups >= WARM_UPS
        )

    def unblocking(self) -> AbstractAsyncContextManager[None]:
        """Make ready for a try: after a lock timeout, dead or frozen sessions that keep this one waiting are ended."""
        pid = self.backend_pid
        if not self._waited or self._peers is None or pid is None:
            return nullcontext()
        return self._peers.terminating_blockers(pid)

    def well(self) -> None:
        """Note that a batch was committed."""
        self._gates.wrote()
        self.read()

    def read(self) -> None:
        """Note that a statement was answered, which is enough unless PostgreSQL takes no writes."""
        if self._ill_since is None or self._gates.use.closed:
            return
        if self._logged:
            log.info("%s: batches go through again, after %.1f s", self._name, clock.now() - self._ill_since)
        self._ill_since, self._failures, self._waited = None, 0, False
        announce("session.well")

    async def failed(self, error: Exception) -> None:
        """Note that a batch failed for no fault of its own. Keep the connection only where nothing speaks against
        it."""
        state = error.sqlstate if isinstance(error, asyncpg.PostgresError) else None
        self._failures += 1
        self._waited = state == LOCK_TIMEOUT
        if self._ill_since is None:
            self._ill_since, self._logged = clock.now(), False
            announce("session.ill")
        if (
            not self._gates.refused(error)
            and not self.is_throttled
            and self._failures > 1
            and not self._logged
        ):
            self._logged = True
            log.warning(
                "%s: a batch cannot be committed, trying again until it can: %s", self._name, said(error)
            )
        if state not in _KEEP:
            await self.close()

    async def close(self) -> None:
        """Give the connection up; a peer that does not answer is not waited for."""
        if self._open is None:
            return
        connection, self._open = self._open[0], None
        with anyio.move_on_after(CLOSING_S, shield=True):
            try:
                await connection.close(timeout=CLOSING_S)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()

    async def _connect(self) -> asyncpg.Connection[asyncpg.Record]:
        # By runner and schema a session is known for that of a process which was stopped, and ended.
        name = f"projectionist {self._consumer.runner}@{tag(self._settings.schema)} {self._name}"
        return await connect(self._settings, application_name=name[:63], deadline=True, pooled=True)

    @property
    def _name(self) -> str:
        return self._consumer.definition.name


def tag(schema: str) -> str:
    """Return what tells the sessions of one schema's runners from those of another: each numbers its own."""
    return blake2b(schema.encode(), digest_size=4, person=b"projectionist").hexdigest()


def store_of(connection: Connection, schema: str, consumer: int) -> InboxStore:
    """Return the store of one consumer, by its number, on this connection."""
    return InboxStore(connection, schema, consumer, barrier_key(schema, consumer))
