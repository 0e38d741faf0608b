"""What of an error may stand in a log, in a health answer and in a table of ours: nothing that quotes content. Pure."""

from __future__ import annotations

import asyncpg

from projectionist.core.digest import stand_in
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.error_class import ErrorClass, classify


def said(error: BaseException) -> str:
    """Return an error in a line: ours are sentences, those of servers are told with their class.

    Of what a value made PostgreSQL or a user's code say, the class and a digest are told: the text may quote it.
    """
    if isinstance(error, ProjectionistError):
        return str(error)
    named = type(error).__name__
    if classify(error) is ErrorClass.INFRASTRUCTURE:
        return f"{named}: {error}"
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate:
        named = f"{named} ({error.sqlstate})"
    return stand_in(str(error), named)
