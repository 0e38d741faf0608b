"""The libraries whose transactions an event can be recorded in, told apart by what their connections can do.

Each executes the steps of a call; none of them is imported here before a connection of it is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from projectionist.outbox.intents.outbox import OutboxError
from projectionist.outbox.recording.outbox_steps import RecordSteps
from projectionist.outbox.recording.recorded import Recorded

Ask = Callable[[str, str], Any]
"""Executes a statement with its one parameter; returns its one value."""
Awaiting = Callable[[Any, RecordSteps], Awaitable[Recorded]]
Blocking = Callable[[Any, RecordSteps], Recorded]

_IN_TRANSACTION, _FAILED = 2, 3
"""Of libpq, as psycopg 2 and 3 tell it."""


def awaiting_library(connection: Any) -> Awaiting | None:
    """Return what executes the steps on a connection that is awaited; None for another one."""
    if hasattr(connection, "is_in_transaction") and hasattr(connection, "fetchval"):
        return _on_asyncpg
    if hasattr(connection, "run_sync") and callable(getattr(connection, "in_transaction", None)):
        return _on_async_sqlalchemy
    if _is_psycopg(connection) and inspect.iscoroutinefunction(connection.execute):
        return _on_async_psycopg
    return None


def blocking_library(connection: Any) -> Blocking:
    """Return what executes the steps on a connection that blocks; raises OutboxError for what is none."""
    if hasattr(connection, "in_atomic_block"):
        return _on_django
    if callable(getattr(connection, "in_transaction", None)) and hasattr(connection, "execute"):
        return _on_sqlalchemy
    if _is_psycopg(connection):
        return _on_psycopg
    raise OutboxError(
        f"outbox() takes the connection on which your transaction is open, and got a {type(connection).__name__}",
        remedy="Give a connection of asyncpg or psycopg 3, a session or connection of SQLAlchemy, "
        "or Django's django.db.connection",
    )


def _drive(steps: RecordSteps, ask: Ask) -> Recorded:
    step = next(steps)
    try:
        while True:
            step = steps.send(ask(*step))
    except StopIteration as end:
        recorded: Recorded = end.value
        return recorded


async def _drive_awaiting(steps: RecordSteps, ask: Ask) -> Recorded:
    step = next(steps)
    while True:
        answer = await ask(*step)
        try:
            step = steps.send(answer)
        except StopIteration as end:
            recorded: Recorded = end.value
            return recorded


def _closed(remedy: str) -> OutboxError:
    return OutboxError(
        "no transaction is open on this connection, so the event would be published even if your own write is undone",
        remedy=remedy,
    )


async def _on_asyncpg(connection: Any, steps: RecordSteps) -> Recorded:
    if not connection.is_in_transaction():
        raise _closed("Record inside `async with connection.transaction():`")
    return await _drive_awaiting(steps, connection.fetchval)


async def _on_async_sqlalchemy(connection: Any, steps: RecordSteps) -> Recorded:
    recorded: Recorded = await connection.run_sync(_on_sqlalchemy, steps)
    return recorded


def _on_sqlalchemy(connection: Any, steps: RecordSteps) -> Recorded:
    from sqlalchemy import text  # noqa: PLC0415  whoever gives such a connection has it

    if not connection.in_transaction():
        raise _closed("Record inside `session.begin()` or `engine.begin()`, or after your own write")
    inner = connection.connection() if callable(getattr(connection, "connection", None)) else connection
    if not _has_begun(inner):
        # It begins with the first statement, unless it was told to commit each by itself.
        inner.exec_driver_sql("select 1")
        if not _has_begun(inner):
            raise _closed(
                "This engine commits each statement by itself: leave AUTOCOMMIT for this connection"
            )

    def ask(statement: str, document: str) -> Any:
        return inner.execute(text(statement.replace("$1", ":document")), {"document": document}).scalar_one()

    return _drive(steps, ask)


def _has_begun(connection: Any) -> bool:
    """Return whether a transaction is open on the connection of the driver below SQLAlchemy."""
    driver = connection.connection.driver_connection
    if hasattr(driver, "is_in_transaction"):
        return bool(driver.is_in_transaction())
    if hasattr(getattr(driver, "info", None), "transaction_status"):
        return driver.info.transaction_status in (_IN_TRANSACTION, _FAILED)
    raise OutboxError(
        f"a {type(driver).__module__} connection does not tell whether a transaction is open",
        remedy="Use postgresql+asyncpg or postgresql+psycopg",
    )


def _is_psycopg(connection: Any) -> bool:
    return hasattr(getattr(connection, "info", None), "transaction_status") and hasattr(connection, "pgconn")


def _check_psycopg(connection: Any) -> None:
    if connection.info.transaction_status not in (_IN_TRANSACTION, _FAILED):
        raise _closed("Record inside `with connection.transaction():`, or after your own write")


def _on_psycopg(connection: Any, steps: RecordSteps) -> Recorded:
    from psycopg import Cursor  # noqa: PLC0415  whoever gives such a connection has it

    _check_psycopg(connection)
    with Cursor(connection, row_factory=_value) as cursor:
        return _drive(steps, partial(_asked, cursor))


def _asked(cursor: Any, statement: str, document: str) -> Any:
    return cursor.execute(_formatted(statement), [document]).fetchone()


async def _on_async_psycopg(connection: Any, steps: RecordSteps) -> Recorded:
    from psycopg import AsyncCursor  # noqa: PLC0415  whoever gives such a connection has it

    _check_psycopg(connection)

    async def ask(statement: str, document: str) -> Any:
        await cursor.execute(_formatted(statement), [document])
        return await cursor.fetchone()

    async with AsyncCursor(connection, row_factory=_value) as cursor:
        return await _drive_awaiting(steps, ask)


def _formatted(statement: str) -> str:
    return statement.replace("%", "%%").replace("$1", "%s")


def _value(_: Any) -> Callable[[Any], Any]:
    """Make rows their one value, whatever the connection makes of rows."""
    return lambda values: values[0].decode() if isinstance(values[0], bytes) else values[0]


def _on_django(connection: Any, steps: RecordSteps) -> Recorded:
    if not connection.in_atomic_block:
        raise _closed("Record inside `with transaction.atomic():`")
    if connection.vendor != "postgresql":
        raise OutboxError(
            f"this connection of Django is one to {connection.vendor}",
            remedy="Give that of the PostgreSQL database that holds Projectionist's tables: connections['…']",
        )

    def ask(statement: str, document: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(_formatted(statement), [document])
            return cursor.fetchone()[0]

    return _drive(steps, ask)
