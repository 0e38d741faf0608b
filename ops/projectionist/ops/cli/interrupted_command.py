"""Tells of a command whose session with PostgreSQL has ended, or that PostgreSQL could not serve just now."""

from __future__ import annotations

import asyncpg

from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.error_class import is_severed, is_transient
from projectionist.core.postgres.error_text import said
from projectionist.core.task_groups import leaves


class CommandInterrupted(ProjectionistError):
    """PostgreSQL has not served a command to its end."""


def interrupted(error: BaseException) -> CommandInterrupted | None:
    """Return what to say where PostgreSQL is to blame, and time may mend it; None for all else."""
    ours = asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError
    found = next((one for one in leaves(error) if isinstance(one, ours) and is_transient(one)), None)
    if found is None:
        return None
    if is_severed(found):
        return CommandInterrupted(
            f"the session with PostgreSQL has ended: {said(found)}",
            remedy="Whether the last step was done is not known: look, and call again",
        )
    return CommandInterrupted(
        f"PostgreSQL did not do this: {said(found)}", remedy="Nothing of the last step was done: call again"
    )
