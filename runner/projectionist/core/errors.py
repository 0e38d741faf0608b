"""The tree of errors a user may meet. The message says what happened; `remedy` says what to do next."""

from __future__ import annotations


class ProjectionistError(Exception):
    """Anything Projectionist refuses or cannot do. Catch this to catch all of ours."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(f"{message}. {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy


class SettingsError(ProjectionistError):
    """A key, value or combination in the settings is wrong."""


class DefinitionError(ProjectionistError, TypeError):
    """A class of events, projections or intents is written in a way that cannot work."""


class IdentifierError(ProjectionistError, ValueError):
    """A name cannot be used as an identifier in PostgreSQL or as a name of ours."""
