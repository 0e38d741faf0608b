"""The right to build: a lease, kept while the builder lives. A second one is refused by the first's name."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import TYPE_CHECKING

import anyio

from projectionist.core.background_thread import BackgroundThread
from projectionist.core.log_format import facts
from projectionist.core.postgres import connections
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.postgres.leases import Lease, Leases
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.testpoints import announce
from projectionist.runner.database.queries import BuildLost, Queries, RebuildError

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Postgres
    from projectionist.projections.compiled.definition import ConsumerDefinition

log = logging.getLogger("projectionist.runner")

TTL_S = 10.0
RENEWED_S = 2.0
LOOKED_S = 0.2
WAITING = "the build is held by %s: if that process is gone this one goes on within %.0f s, else it ends and says so"

OnRenewal = Callable[[Queries, int, int], Awaitable[None]]
"""Is given the consumer and the epoch of the lease."""


class AlreadyBuilding(RebuildError):
    """Another process is building this consumer's generation."""


def owner() -> str:
    """Return a name for this process that says where it is to be found."""
    return f"{socket.gethostname()} pid {os.getpid()} ({token_hex(3)})"


@asynccontextmanager
async def build_lease(
    queries: Queries,
    postgres: Postgres,
    definition: ConsumerDefinition,
    consumer: int,
    who: str,
    on_renewal: OnRenewal | None = None,
    *,
    ttl_s: float = TTL_S,
    renewed_s: float = RENEWED_S,
) -> AsyncIterator[Lease]:
    """Hold the right to build; raise AlreadyBuilding while another process uses it.

    After a crash the lease of the one before runs out by itself, which is waited for and told. It is renewed beside
    the event loop, which handlers hold up; each time `tell` may write something down. BuildLost ends the block where
    another process has taken over.
    """
    lease, abandoned_by = await _acquire(queries, Leases(queries.schema, who), f"build:{consumer}", ttl_s)
    if abandoned_by is not None:
        about = facts(consumer=definition.name, kind="lease_taken_over")
        text = "%s: the build lease is taken over from %s, which has let its lease run out"
        log.warning(text, definition.name, abandoned_by, extra=about)
    announce("build_lease.taken")
    keeper = _Keeper(postgres, consumer, who, lease, on_renewal, ttl_s=ttl_s, renewed_s=renewed_s)
    beside = BackgroundThread(f"build lease of {consumer}", keeper.keep)
    beside.start()
    try:
        with unwrap_single_exception():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(beside.ended)
                yield lease
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await beside.stop()


async def _acquire(queries: Queries, leases: Leases, name: str, ttl_s: float) -> tuple[Lease, str | None]:
    """Return the lease, and the owner that abandoned it, if one did: that one runs out, one in use is renewed before
    that."""
    before = None
    while True:
        row = await queries.row("select_lease_holder", name)
        lease = await leases.acquire(queries.connection, name, ttl_s)
        if lease is not None:
            return lease, row["owner"] if row is not None and row["unreleased"] else None
        if row is not None and before is not None and (row["owner"], row["expires_at"]) != before:
            raise AlreadyBuilding(
                f"{row['owner']} is building it", remedy="Wait for it, or end that process and try again"
            )
        if before is None and row is not None:
            before = (row["owner"], row["expires_at"])
            log.info(WAITING, row["owner"], ttl_s, extra=facts(kind="lease_waited_for"))
        announce("build_lease.waiting")
        await anyio.sleep(LOOKED_S)


class _Keeper:
    """Renews a lease over a connection of its own; takes it again where it ran out and no other owner wanted it."""

    def __init__(
        self,
        postgres: Postgres,
        consumer: int,
        who: str,
        lease: Lease,
        on_renewal: OnRenewal | None,
        *,
        ttl_s: float,
        renewed_s: float,
    ) -> None:
        self._ttl_s, self._renewed_s = ttl_s, renewed_s
        self._postgres = postgres
        self._consumer = consumer
        self._leases = Leases(postgres.schema, who)
        self._epoch, self._held = lease.epoch, lease
        self._on_renewal = on_renewal

    async def keep(self, ending: asyncio.Event) -> None:
        """Renew the lease until the end, which lets it go. Raise BuildLost."""
        connection: Connection | None = None
        try:
            while not ending.is_set():
                connection = await self._renewed(connection)
                with suppress(TimeoutError):
                    await asyncio.wait_for(ending.wait(), self._renewed_s)
            with suppress(Exception):  # it runs out by itself
                async with asyncio.timeout(self._renewed_s):
                    connection = connection or await self._connected()
                    await self._leases.release(connection, self._held)
        finally:
            if connection is not None:
                connection.terminate()

    async def _renewed(self, connection: Connection | None) -> Connection | None:
        """Renew it; return the connection it was renewed on; None if there was trouble: then it is tried again."""
        announce("build_lease.renewing")
        try:
            async with asyncio.timeout(self._ttl_s):
                connection = connection or await self._connected()
                await self._renew(Queries(connection, self._postgres.schema))
        except Exception as error:
            if connection is not None:
                connection.terminate()
            if not is_transient(error):
                raise
            return None
        return connection

    async def _connected(self) -> Connection:
        return await connections.connect(self._postgres, application_name="projectionist build lease")

    async def _renew(self, queries: Queries) -> None:
        renewed = await self._leases.renew(queries.connection, self._held)
        if renewed is None:
            holder = await queries.row("select_lease_holder", self._held.name)
            renewed = await self._leases.acquire(queries.connection, self._held.name, self._ttl_s)
            # One grant further: nobody has had it in between, who might have gone on with this build, or ended it.
            if renewed is None or renewed.epoch != self._held.epoch + 1:
                named = "another process" if holder is None else holder["owner"]
                raise BuildLost(
                    f"{named} took the build lease, which this process had not renewed for {self._ttl_s:g} s",
                    remedy="Look at `generations list`; rebuilding again goes on from its last checkpoint",
                )
            announce("build_lease.again")
        self._held = renewed
        if self._on_renewal is not None:
            await self._on_renewal(queries, self._consumer, self._epoch)
