"""A session of PostgreSQL as a pooler lends it: for one transaction at a time.

Nothing lasts between two of them: no setting, no lock, no prepared statement, not even the server. So every statement
runs in a transaction, and the message of each BEGIN says all that it relies on, and asks whether server and database
are those of before: it costs no round trip of its own. What needs more than a transaction is refused.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import asyncpg

from projectionist.core.postgres.sessions import BackendShared, watch
from projectionist.core.postgres.statements import Statements, is_own

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from projectionist.core.postgres.connections import Connection

    _Plain = asyncpg.Connection[asyncpg.Record]
else:
    _Plain = asyncpg.Connection

NO_STATEMENT_MODE = "statement pooling"
"""Is what pgbouncer says to a BEGIN in the mode in which there are no transactions."""
MOST_KNOWN = 500
"""So many statements of ours are known by what their arguments and columns are like."""
_BEGIN, _ENDS = "BEGIN", ("COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")
"""How the driver begins and ends transactions."""

_SQL = Statements("projectionist.core", "projectionist")


class PooledSession(_Plain):
    """A connection to a pooler of which every transaction stands for itself."""

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        watch(transport.get_extra_info("socket"))
        # The driver would switch it off for the session, which is the next borrower's then. Ours have it off.
        # The stubs leave it out.
        self._server_caps = self._server_caps._replace(jit=False)  # type: ignore[has-type]
        self._opening = ""
        self._known: dict[tuple[str, Any, Any], Any] = {}

    async def begin(self, settings: Mapping[str, str], more: str = "") -> None:
        """Have every transaction from now on begin with these settings, and with the statement `more`.

        The first one too: who freezes while its BEGIN waits in the pooler gets a session all the same, which nobody
        would know to be its, nor take from it. Raises BackendShared where not even transactions are kept together.
        """
        names = ", ".join(f"set_config({_quoted(n)}, {_quoted(v)}, true)" for n, v in settings.items())
        said = f"set local search_path = pg_catalog, pg_temp; select {names}"
        self._opening = f"{said}; {more}"
        try:
            server = await self.fetchrow(_SQL["select_pooled_server"])
        except asyncpg.PostgresConnectionError as error:
            if NO_STATEMENT_MODE in str(error):
                raise BackendShared from error
            raise
        begun, database = _quoted(server["begun"]), server["database"]
        self._opening = (
            f"{said}, case when extract(epoch from pg_postmaster_start_time())::text <> {begun} or {database} <>"
            " (select oid from pg_database where datname = current_database())"
            f" then ('another server, begun ' || pg_postmaster_start_time())::integer end; {more}"
        )

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """Run a statement, in a transaction of its own unless there is one; so do the others."""
        if query.startswith(_BEGIN):
            return await self._begun(query, timeout)
        if query.startswith(_ENDS):
            return await self._ended(query, timeout)
        return str(await self._within(partial(super().execute, query, *args, timeout=timeout)))

    async def executemany(self, command: str, args: Any, *, timeout: float | None = None) -> None:
        """Run a statement with each of these rows of arguments."""
        await self._within(partial(super().executemany, command, args, timeout=timeout))

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        """Return all rows of a statement."""
        return await self._within(partial(super().fetch, query, *args, **options))

    async def fetchrow(self, query: str, *args: Any, **options: Any) -> Any:
        """Return its first row."""
        return await self._within(partial(super().fetchrow, query, *args, **options))

    async def fetchval(self, query: str, *args: Any, **options: Any) -> Any:
        """Return the first column of its first row."""
        return await self._within(partial(super().fetchval, query, *args, **options))

    async def reset(self, *, timeout: float | None = None) -> None:
        """End an open transaction, which is all that a borrower can have left."""
        if self.is_in_transaction():
            await super().execute("rollback", timeout=timeout)

    def get_server_pid(self) -> NoReturn:
        """Refuse: it is another one in each transaction."""
        raise _refused("the number of its server process")

    def cursor(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: the driver names the statement of a cursor, and the name stays with a session that is lent on."""
        raise _refused("a cursor")

    async def add_listener(self, *_: Any) -> NoReturn:
        """Refuse: whoever borrows the session next would be told."""
        raise _refused("LISTEN")

    async def _within(self, run: Callable[[], Awaitable[Any]]) -> Any:
        if self.is_in_transaction():
            return await run()
        try:
            async with self.transaction():
                return await run()
        except BaseException as error:
            if not isinstance(error, Exception):  # cancelled, perhaps in the middle of the transaction's end
                self.terminate()
            raise

    async def _begun(self, query: str, timeout: float | None) -> str:
        """Begin with all that a transaction relies on. What fails here leaves nothing to go on with."""
        level = query.replace("BEGIN;", "BEGIN ISOLATION LEVEL READ COMMITTED;")
        try:
            return await super().execute(f"{level} {self._opening}", timeout=timeout)
        except asyncpg.InvalidTextRepresentationError as error:
            self.terminate()
            raise asyncpg.ConnectionDoesNotExistError(
                "another server or database answers behind the pooler"
            ) from error
        except BaseException:
            self.terminate()
            raise

    async def _ended(self, query: str, timeout: float | None) -> str:
        """End a transaction or a savepoint, or begin one; raises where nothing would be ended."""
        if not self.is_in_transaction():
            raise asyncpg.ConnectionDoesNotExistError("the transaction that is to be ended is gone")
        status = await super().execute(query, timeout=timeout)
        if query.startswith("COMMIT") and status != "COMMIT":
            raise asyncpg.InFailedSQLTransactionError(f"its COMMIT was answered {status}")
        return status

    async def _get_statement(self, query: str, timeout: float | None, **options: Any) -> Any:
        """Return a statement without a name; what its arguments and columns are like is asked once where it is ours.

        The driver sends it anew each time, and would ask each time, which is a round trip.
        """
        about = query, options.get("record_class"), options.get("ignore_custom_codec")
        if options.get("named") or not is_own(query):
            return await super()._get_statement(query, timeout, **options | {"named": ""})  # type: ignore[misc]  # the stubs leave out what is private
        found = self._known.get(about) if options.get("use_cache", True) else None
        if found is None:
            found = await super()._get_statement(query, timeout, **options)  # type: ignore[misc]  # the stubs leave out what is private
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[about] = found
        found.mark_unprepared()
        return found


def greeted(connection: Connection) -> int:
    """Return the process that whoever answered the connection has named: the server's own, or a pooler's invention."""
    return _Plain.get_server_pid(connection)  # type: ignore[arg-type]  # a pool's proxy has all that is asked here


def is_lent(connection: Connection) -> bool:
    """Return whether each transaction on this connection may have another session behind it."""
    return (
        type(connection) is PooledSession
    )  # the driver has every connection be an instance of each of its classes


def _quoted(value: str) -> str:
    """Return a text as a statement writes it, whatever the server makes of a backslash elsewhere."""
    return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _refused(what: str) -> asyncpg.InterfaceError:
    return asyncpg.InterfaceError(f"{what} is of no use where a pooler lends a session for a transaction")
