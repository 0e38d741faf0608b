"""Keeps the lease behind a runner's claims: on a thread, a loop and a connection that no handler can hold up.

On the same way it frees what others hold whose lease is over: this process's batches may be waiting for just that.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio.to_thread
import asyncpg

from projectionist.core.background_thread import BackgroundThread
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.connections import connect
from projectionist.core.postgres.statements import Statements
from projectionist.core.telemetry import instruments, metrics
from projectionist.core.testpoints import announce
from projectionist.runner.batch.batch_session import tag

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Postgres

log = logging.getLogger("projectionist.runner")

SHARE = 4
"""A lease is renewed so often while it lasts."""


class LeaseRenewer:
    """Renews the lease of one runner from `start` to `stop`. `lease_s` is asked before each renewal."""

    def __init__(self, postgres: Postgres, consumer: int, runner: int, lease_s: Callable[[], float]) -> None:
        self._postgres = postgres
        self._consumer = consumer
        self._runner = runner
        self._lease_s = lease_s
        self._sql = Statements("projectionist.runner", postgres.schema)
        self._beside = BackgroundThread(f"lease of runner {runner}", self._keep)
        self._held = threading.Event()

    async def start(self) -> None:
        """Return when the lease is there for the first time; what is claimed without one is anybody's."""
        self._beside.start()
        await anyio.to_thread.run_sync(self._held.wait, abandon_on_cancel=True)

    async def stop(self) -> None:
        """Let the lease end now, so that others may have what is still claimed."""
        await self._beside.stop()

    async def _keep(self, ending: asyncio.Event) -> None:
        connection: Connection | None = None
        while not ending.is_set():
            connection = await self._renewed(connection, self._lease_s())
            with suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), self._lease_s() / SHARE)
        connection = await self._renewed(connection, 0.0)
        if connection is not None:
            await connection.close(timeout=1)

    async def _renewed(self, connection: Connection | None, lease_s: float) -> Connection | None:
        """Renew the lease; return the connection the lease was renewed on; None if it was not: then it ends, and others
        take over."""
        try:
            if connection is None:
                connection = await connect(self._postgres, application_name="projectionist lease")
            await connection.execute(
                self._sql["renew_runner_lease"], self._runner, lease_s, timeout=lease_s or 1.0
            )
            frozen = (
                self._sql["terminate_sessions_of_expired_leases"],
                self._consumer,
                tag(self._postgres.schema),
            )
            ended = await connection.fetchval(*frozen, timeout=lease_s or 1.0)
            if ended:
                metrics.add(instruments.RECLAIMED, ended)
                log.warning(
                    "ended %d sessions of runners whose lease was over: what they had claimed is taken over",
                    ended,
                )
        except (
            OSError,
            TimeoutError,
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            ProjectionistError,
        ) as e:
            log.debug("the lease of runner %d was not renewed: %s", self._runner, e)
            if connection is not None:
                connection.terminate()
            return None
        self._held.set()
        announce("lease.renewed")
        return connection
