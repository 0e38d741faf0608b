"""One connection to PostgreSQL, lent for one statement at a time, and opened again after an outage."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.connections import connect
from projectionist.core.postgres.database_identity import DatabaseCopied, owner
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.postgres.pooled_session import is_lent
from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Postgres

log = logging.getLogger("projectionist.outbox")

WITHIN_S = 20.0
"""No statement of a relay takes as long; one that does has lost its connection."""

FOR_TRANSACTION = "$1"
"""In a `setup`: whether what it sets lasts for the transaction, and not for the session."""


class DatabaseUnavailable(ProjectionistError):
    """PostgreSQL does not answer now. The statement may have been executed."""


class DatabaseLink:
    """A connection, opened when it is needed; every outage is a DatabaseUnavailable, and logged once.

    `setup`: the statement that it begins with, or each transaction where a pooler lends a session. `judge`: looks at
    the database before any other statement.
    """

    def __init__(
        self,
        postgres: Postgres,
        name: str,
        *,
        setup: str = "set_stable_plans",
        judge: Callable[[Connection, Statements], Awaitable[None]] | None = None,
    ) -> None:
        self.sql = Statements("projectionist.outbox", postgres.schema)
        self._postgres = postgres
        self._name = name
        self._setup = setup
        self._judge = judge
        self._lock = anyio.Lock()
        self._connection: Connection | None = None
        self.away = False
        """The last statement met an outage."""

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Connection]:
        """Lend the connection to this task alone. Raises DatabaseUnavailable for an outage that will pass."""
        async with self._lock:
            try:
                with anyio.fail_after(WITHIN_S):
                    if self._connection is None or self._connection.is_closed():
                        self._connection = await self._opened()
                    announce("relay.asked")
                    yield self._connection
            except BaseException as error:
                # A statement that was cut off may still be running: its connection is of no use to the next one.
                await self.close()
                if not (is_transient(error) or isinstance(error, DatabaseCopied)):
                    raise
                self._log_outage(error)
                raise DatabaseUnavailable("PostgreSQL cannot be used now") from error
            if self.away:
                self.away = False
                log.info("%s: PostgreSQL is back", self._name)

    async def close(self) -> None:
        """Terminate the connection, without waiting for the server."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _opened(self) -> Connection:
        setup = self.sql[self._setup]
        connection = await connect(
            self._postgres,
            application_name=f"projectionist {self._name}"[:63],
            pooled=True,
            opening=setup.replace(FOR_TRANSACTION, "true"),
        )
        try:
            await owner(
                connection, self._postgres.schema
            )  # a copy holds intents that the original's relays send
            if not is_lent(connection):
                await connection.execute(setup, False)
            if self._judge is not None:
                await self._judge(connection, self.sql)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _log_outage(self, error: BaseException) -> None:
        if not self.away:
            self.away = True
            log.warning(
                "%s: PostgreSQL cannot be used, waiting for it: %s", self._name, str(error) or "no answer"
            )
            announce("relay.away")
