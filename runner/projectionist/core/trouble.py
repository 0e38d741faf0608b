"""What an error of the database means: wait and try again, or look for what was sent. Pure."""

from __future__ import annotations

from enum import StrEnum

import asyncpg

from projectionist.core.db import DatabaseRefusedError, DatabaseUnreachableError

_TRANSIENT_CLASSES = ("08", "53")
_OUR_FAULT_CLASSES = ("28", "3D", "3F", "42")
"""Rights, missing schemas, tables and columns: no event is to blame, so none may be failed for it."""

_TRANSIENT_STATES = frozenset(
    {
        *("40001", "40P01"),  # serialization failure, deadlock
        *("55P03", "57014"),  # lock timeout, statement timeout
        *("57P01", "57P02", "57P03", "57P04", "57P05"),  # the server or this session was ended
        "25006",  # read-only: a standby, or a disk that filled up
        "25P03",  # idle in transaction for too long: this process was stopped
    }
)
_GONE = ("closed", "closing", "released back to the pool", "another operation is in progress")
"""What the driver says, in words alone, of a connection that is gone or was cut off in the middle of a statement. What
else it complains about, such as the number of arguments, is a fault of ours that no waiting mends."""
_SYNTAX = "42601"
"""A statement of ours that is none: nobody but us can mend it, and waiting hides it."""


class Trouble(StrEnum):
    """What to do about an error inside a batch."""

    INFRASTRUCTURE = "infrastructure"
    """Nobody's fault: no attempt is counted, the same batch is tried again."""
    DATA = "data"
    """PostgreSQL refuses a value: the event that brings it has to be found."""
    BUG = "bug"
    """Neither: the process stops and says so."""


def is_transient(error: BaseException) -> bool:
    """Whether the connection or the server is to blame, not the statement: time mends it."""
    match error:
        case asyncpg.InvalidCachedStatementError():
            return True
        case asyncpg.PostgresError(sqlstate=str() as state):
            return state in _TRANSIENT_STATES or state.startswith(_TRANSIENT_CLASSES)
        # The driver's own confusion: a session that was ended while this process slept in the middle of a statement.
        case asyncpg.InternalClientError():
            return True
        case asyncpg.InterfaceError():
            return any(word in str(error) for word in _GONE)
        case DatabaseUnreachableError() | DatabaseRefusedError():
            return True
        case _:
            return isinstance(error, OSError | TimeoutError)


def classify(error: BaseException) -> Trouble:
    """What an error of one of our own statements means."""
    if is_transient(error):
        return Trouble.INFRASTRUCTURE
    match error:
        case asyncpg.PostgresError(sqlstate=str() as state) if state == _SYNTAX:
            return Trouble.BUG
        case asyncpg.PostgresError(sqlstate=str() as state):
            return Trouble.INFRASTRUCTURE if state.startswith(_OUR_FAULT_CLASSES) else Trouble.DATA
        case OverflowError():
            return Trouble.DATA
        case _:
            return Trouble.BUG
