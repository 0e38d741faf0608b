"""What an error of the database speaks of: a value that it refuses, itself, or a wrong call of ours. Pure.

A code is a first guess. PostgreSQL says with the same words that a disk fails and that one page of one row cannot be
read, that nobody may write and that one row is forbidden; which of the two it is shows in what else gets through
(`projectionist.runner.batch.failure_evidence`).
"""

from __future__ import annotations

from enum import StrEnum

import asyncpg

from projectionist.core.postgres.connections import DatabaseRefusedError, DatabaseUnreachableError

_DATA_CLASSES = (
    "09",  # a triggered action
    "10",  # XQuery
    "20",  # CASE without a branch for it
    "21",  # cardinality: one statement would change a row twice
    "22",  # a value that its type does not take
    "23",  # a constraint
    "27",  # a trigger changed what the statement is about to change
    "2F",  # what a function does, refused
    "38",  # a function of the user's raised
    "39",  # a function of the user's broke its contract
    "44",  # a view's check option
    "54",  # larger or more than PostgreSQL takes
    "P0",  # PL/pgSQL: raised, no rows, too many rows, an assertion
)
"""Classes of errors that speak of what a statement was given. All others speak of the server, its state, rights."""

_PASSING_CLASSES = (
    "08",  # connection
    *("25006", "25P03", "25P04"),  # read-only; a transaction that idled or lasted for too long
    "26",  # a prepared statement is gone: a pooler, or another server
    "40",  # rolled back: serialization, deadlock, completion unknown
    "53",  # out of connections, memory or disk
    "55",  # an object is in use or not in its state; a lock timeout
    "57",  # ended, starting up, a statement timeout
    "58",  # the system around it: input and output
    "72",  # a snapshot that is too old
    "F0",  # its configuration file
    "HV",  # a foreign server
    "XX",  # internal: updated concurrently, a page that cannot be read
)
"""Classes that time alone may mend. What else is not about data, rights and missing tables, somebody has to."""

_SEVERED = ("08", "57P01", "57P02", "57P04", "57P05")
_GONE = ("closed", "closing", "released back to the pool", "another operation is in progress")
"""What the driver says, in words alone, of a connection that is gone or was cut off in the middle of a statement. What
else it complains about, such as the number of arguments, is a fault of ours that no waiting mends."""
_SYNTAX = "42601"
"""A statement that is none: one of ours, or one that a trigger of the user's puts together."""


class ErrorClass(StrEnum):
    """What an error inside a batch looks like at first sight."""

    INFRASTRUCTURE = "infrastructure"
    """The server's: the same is tried again, and no attempt is counted, unless others go through."""
    DATA = "data"
    """PostgreSQL refuses a value: the event that brings it has to be found."""
    BUG = "bug"
    """Neither: a wrong call of ours, which may be wrong for one event alone."""


def is_transient(error: BaseException) -> bool:
    """Return whether the connection or the server is to blame, not the statement: time mends it."""
    match error:
        case asyncpg.InvalidCachedStatementError():
            return True
        case asyncpg.PostgresError(sqlstate=str() as state):
            return state.startswith(_PASSING_CLASSES)
        # The driver's own confusion: a session that was ended while this process slept in the middle of a statement.
        case asyncpg.InternalClientError():
            return True
        case asyncpg.InterfaceError():
            return any(word in str(error) for word in _GONE)
        case DatabaseUnreachableError() | DatabaseRefusedError():
            return True
        case _:
            return isinstance(error, OSError | TimeoutError)


def is_severed(error: BaseException) -> bool:
    """Return whether the session has ended with this error."""
    match error:
        case asyncpg.PostgresError(sqlstate=str() as state):
            return state.startswith(_SEVERED)
        case _:
            return is_transient(error)


def classify(error: BaseException) -> ErrorClass:
    """Return what an error of one of our own statements looks like."""
    if is_transient(error):
        return ErrorClass.INFRASTRUCTURE
    match error:
        case asyncpg.PostgresError(sqlstate=str() as state) if state == _SYNTAX:
            return ErrorClass.BUG
        case asyncpg.PostgresError(sqlstate=str() as state):
            return ErrorClass.DATA if state.startswith(_DATA_CLASSES) else ErrorClass.INFRASTRUCTURE
        case OverflowError():
            return ErrorClass.DATA
        case _:
            return ErrorClass.BUG
