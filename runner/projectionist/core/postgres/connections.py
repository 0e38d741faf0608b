"""Connections to PostgreSQL, and the keys of advisory locks."""

from __future__ import annotations

import os
import pwd
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio
import asyncpg

from projectionist.core.errors import ProjectionistError, SettingsError
from projectionist.core.postgres.pooled_session import PooledSession
from projectionist.core.postgres.sessions import BackendShared, ServerSession
from projectionist.core.settings.settings import Postgres
from projectionist.core.tls import context

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"
"""A connection of one's own or one lent by a pool: code that runs statements does not care."""


class Row(Protocol):
    """A row as pure code reads it: by the names of its columns."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the value of one column."""


CONNECT_WITHIN_S = 10.0

SEARCH_PATH = "pg_catalog, pg_temp"
"""Where our statements look for functions, operators and types: not where some other role may have put its own."""
SESSION = {
    "search_path": SEARCH_PATH,
    # A statement that has waited is followed by one that sees what it waited for, whatever the database prefers.
    "default_transaction_isolation": "read committed",
    # A process that was stopped between two statements must not keep its locks.
    "idle_in_transaction_session_timeout": "30s",
    # A machine that vanished says no goodbye: the server lets go of its locks after a minute, not two hours.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    # Statements here are short and many: compiling one costs more than running it.
    "jit": "off",
    "timezone": "UTC",
    # Columns of rows travel as the text of an array, in which a null must not be the word.
    "array_nulls": "on",
}
_TRANSACTION = {
    # A socket of the pooler's is watched by the pooler; the isolation level is said by BEGIN.
    name: value
    for name, value in SESSION.items()
    if name != "default_transaction_isolation" and not name.startswith("tcp_")
}
"""Holds what of it is set in each transaction behind a pooler."""

GREETED = "projectionist"
"""Names us to a pooler at first: sessions bear the names of their transactions, and others' between them."""

OS_USER = "projectionist.os_user"
"""The setting by which a session says under which account its process runs: the audit trail keeps it."""


class DatabaseUnreachableError(ProjectionistError):
    """PostgreSQL does not answer, or not yet. Trying again later may help."""


class DatabaseRefusedError(ProjectionistError):
    """PostgreSQL answered and said no. Trying again does not help, somebody has to change something."""


ANSWER_S = 5.0
"""How long after its own timeout PostgreSQL may take to say so, before a connection is held to be dead."""


async def connect(
    postgres: Postgres,
    *,
    application_name: str,
    deadline: bool = False,
    within_s: float = CONNECT_WITHIN_S,
    pooled: bool = False,
    opening: str = "",
) -> asyncpg.Connection[asyncpg.Record]:
    """Open a connection by the settings, with our timeouts. The caller closes it.

    `pooled`: nothing on it lasts beyond a transaction, so that where `direct_url` is set it may go through the pooler;
    each transaction begins with the statement `opening` then. All others go to the server itself.
    `deadline`: give up on a statement here too, when even PostgreSQL's answer that it took too long does not come.
    Raises SettingsError without a URL, DatabaseUnreachableError or DatabaseRefusedError (for a database that cannot
    hold every text too); no text of theirs shows a password.
    """
    if pooled and postgres.direct_url is not None:
        arguments = _arguments(postgres, GREETED, deadline=deadline, within_s=within_s)
        settings = _TRANSACTION | _timeouts(postgres) | {"application_name": application_name}
        return await _lent(postgres, settings, opening, arguments)
    direct = postgres.direct
    return await _opened(direct, **_arguments(direct, application_name, deadline=deadline, within_s=within_s))


async def pool(postgres: Postgres, *, application_name: str, most: int) -> asyncpg.Pool[asyncpg.Record]:
    """Open a pool of up to `most` connections like those of `connect` with a deadline, one of them open.

    The caller closes it.
    """
    postgres = postgres.direct
    arguments = _arguments(postgres, application_name, deadline=True)

    with _explaining(postgres, CONNECT_WITHIN_S):
        # Without a least size: the driver would open connections on its own, as fast as they fail.
        opened = partial(_opened, postgres)
        made = await asyncpg.create_pool(min_size=0, max_size=most, connect=opened, **arguments)
        try:
            await made.release(await made.acquire())
        except BaseException:
            made.terminate()
            raise
        return made


def os_user() -> str:
    """Return the account that this process runs under, by its name, or by its number where it has none."""
    account = os.geteuid()
    try:
        return pwd.getpwuid(account).pw_name
    except KeyError:
        return str(account)


def advisory_key(schema: str, name: str) -> int:
    """Return the advisory lock of `name` in `schema`. They are per database, which may hold several schemas."""
    text = f"{len(schema)}:{schema}{name}"
    digest = blake2b(text.encode(), digest_size=8, person=b"projectionist").digest()
    return int.from_bytes(digest, "big", signed=True)


async def _opened(postgres: Postgres, *args: Any, **options: Any) -> ServerSession:
    """Open a session of ours, with its settings in force."""
    within_s = options["timeout"]
    settings = SESSION | {OS_USER: os_user()} | _timeouts(postgres) | options["server_settings"]

    async def another() -> ServerSession:
        made = await asyncpg.connect(*args, **options)
        assert isinstance(made, ServerSession)
        return made

    with _explaining(postgres, within_s):
        connection = await another()
        try:
            # The greeting is the pooler's own; only a statement waits until there is a back end for it.
            with anyio.fail_after(within_s):
                await connection.begin(settings, another)
            _check_encoding(postgres, connection)
        except BaseException:
            connection.terminate()
            raise
        return connection


async def _lent(
    postgres: Postgres, settings: dict[str, str], opening: str, arguments: dict[str, Any]
) -> PooledSession:
    """Open a connection to the pooler, of which each transaction begins with these settings."""
    arguments |= {"connection_class": PooledSession, "statement_cache_size": 0}
    with _explaining(postgres, arguments["timeout"]):
        connection = await asyncpg.connect(**arguments)
        assert isinstance(connection, PooledSession)
        try:
            with anyio.fail_after(arguments["timeout"]):
                await connection.begin(settings | {OS_USER: os_user()}, opening)
            _check_encoding(postgres, connection)
        except BaseException:
            connection.terminate()
            raise
        return connection


def _check_encoding(postgres: Postgres, connection: Connection) -> None:
    encoding = connection.get_settings().server_encoding  # told in the greeting, nothing is asked
    if encoding != "UTF8":
        raise DatabaseRefusedError(
            f"The database of PostgreSQL at {postgres.url} is encoded in {encoding}, which cannot hold every text",
            remedy="Name one in postgres.url that was made with: create database … encoding 'UTF8' template template0",
        )


def _arguments(
    postgres: Postgres, application_name: str, *, deadline: bool, within_s: float = CONNECT_WITHIN_S
) -> dict[str, Any]:
    if postgres.url is None:
        raise SettingsError(
            "postgres.url is not set",
            remedy="Set it in projectionist.toml or as PROJECTIONIST_POSTGRES__URL, "
            "or start servers of your own with `projectionist dev up`",
        )
    return {
        "dsn": postgres.url.reveal(),
        "ssl": context(postgres, postgres.url.hosts(), name="postgres") or False,
        "timeout": within_s,
        "command_timeout": postgres.statement_s + ANSWER_S if deadline else None,
        "server_settings": {"application_name": application_name},
        "connection_class": ServerSession,
    }


def _timeouts(postgres: Postgres) -> dict[str, str]:
    # Who waits longer for a lock than the first looks for the holder instead of waiting on.
    limits = {"lock_timeout": postgres.lock_s, "statement_timeout": postgres.statement_s}
    return {name: f"{seconds * 1000:.0f}ms" for name, seconds in limits.items()}


@contextmanager
def _explaining(postgres: Postgres, within_s: float) -> Iterator[None]:
    """Turn what the driver raises while connecting into one of our errors."""
    try:
        yield
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError, BackendShared) as error:
        raise _explained(postgres, error, within_s) from None


def _explained(postgres: Postgres, error: Exception, within_s: float) -> ProjectionistError:
    for kind, verdict, problem, remedy in _VERDICTS:
        if isinstance(error, kind):
            text = problem.format(error=error, within_s=within_s)
            return verdict(f"PostgreSQL at {postgres.url} {text}", remedy=remedy)
    if type(error) is ConnectionError:  # the driver's own: the server answered, and has no TLS
        return DatabaseRefusedError(
            f"PostgreSQL at {postgres.url} offers no TLS", remedy="Turn it on there, or set postgres.tls"
        )
    if isinstance(error, OSError):
        return DatabaseUnreachableError(
            f"PostgreSQL at {postgres.url} cannot be reached: {error.strerror or error}", remedy=_ADDRESS
        )
    if isinstance(error, asyncpg.InterfaceError) and not isinstance(error, ValueError):
        # Not of the URL: of a connection that ended before its first statement was answered.
        return DatabaseUnreachableError(
            f"PostgreSQL at {postgres.url} ended the connection: {error}", remedy="Wait, then try again"
        )
    # What the driver says about a URL quotes parts of it, and a part may be the password.
    return SettingsError(
        "postgres.url cannot be read", remedy="Write special characters of user and password as %40, %2F, …"
    )


_ADDRESS = "Start it, or check host and port in postgres.url"

_POOLED = (
    "Give us a pool in session mode (pgbouncer: pool_mode = session), or one in transaction mode and beside it"
    " postgres.direct_url, which is to lead to the server itself"
)

# The first that fits; `{error}` is the server's own text, which names users and databases but no password.
_VERDICTS: tuple[tuple[type[Exception], type[ProjectionistError], str, str], ...] = (
    (
        BackendShared,
        DatabaseRefusedError,
        "is behind a pooler that lends a session for a transaction or a statement: locks and settings do not last",
        _POOLED,
    ),
    (
        asyncpg.InvalidPasswordError,
        DatabaseRefusedError,
        "refuses user or password",
        "Check both in postgres.url",
    ),
    (
        asyncpg.InvalidCatalogNameError,
        DatabaseRefusedError,
        "says: {error}",
        "Create the database, or name another in postgres.url",
    ),
    (
        asyncpg.InvalidAuthorizationSpecificationError,
        DatabaseRefusedError,
        "says: {error}",
        "Check user, host and TLS against the server's pg_hba.conf",
    ),
    *(
        (kind, DatabaseUnreachableError, "says: {error}", "Wait, then try again")
        for kind in (
            asyncpg.PostgresConnectionError,  # lost in the middle of the greeting
            asyncpg.OperatorInterventionError,  # starting up, shutting down
            asyncpg.InsufficientResourcesError,  # too many connections, no memory
            asyncpg.ObjectNotInPrerequisiteStateError,  # closed for a restore
        )
    ),
    (asyncpg.PostgresError, DatabaseRefusedError, "says: {error}", ""),
    (
        ssl.SSLCertVerificationError,
        DatabaseRefusedError,
        "shows a certificate that is not trusted: {error.verify_message}",
        "Set postgres.ca_file to the authority that signed it, and connect by the name it was made for",
    ),
    (TimeoutError, DatabaseUnreachableError, "does not answer within {within_s:g} s", _ADDRESS),
)
