"""The oldest servers that are taken: the oldest that the tests are run on. Pure."""

from __future__ import annotations

from projectionist.core.errors import ProjectionistError

LEAST_POSTGRES = 15
LEAST_NATS = (2, 10)


class ServerTooOld(ProjectionistError):
    """A server is older than the oldest that the tests are run on."""


def refuse_old_postgres(major: int, place: str) -> None:
    """Raise ServerTooOld where PostgreSQL at `place` is too old."""
    if major < LEAST_POSTGRES:
        raise ServerTooOld(
            f"PostgreSQL at {place} is {major}, and at least {LEAST_POSTGRES} is needed",
            remedy=f"Upgrade it to {LEAST_POSTGRES} or later, or point postgres.url to another server",
        )
