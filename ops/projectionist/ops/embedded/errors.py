"""The errors of setting up, starting and stopping the embedded servers."""

from __future__ import annotations

from projectionist.core.errors import ProjectionistError


class EmbeddedError(ProjectionistError):
    """An embedded server cannot be had. The message quotes what the server itself said last."""


class StartError(Exception):
    """A server ended before it was ready; `said` is what it wrote to its log."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said
