"""What a NATS server does not let a connection do, told to whatever waits for it: no answer would ever come."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from projectionist.core.errors import ProjectionistError
from projectionist.core.nats.subject_relations import covers

REMEDY = (
    "Grant it; `projectionist doctor --permissions` prints all that each process needs "
    "(docs/operations/nats-permissions.md)"
)
_SAID = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"', re.IGNORECASE)


def beside(inbox: str) -> str:
    """Return the pattern of all inboxes with the same prefix, which are granted together."""
    return f"{inbox.rpartition('.')[0]}.>"


class SubjectDenied(ProjectionistError):
    """The server does not let this user publish or subscribe to a subject. Grant what it names."""


class Denial:
    """One word of the server. nats-py hands it on in small letters, so the subject's own case is not known."""

    def __init__(self, *, publishing: bool, subject: str) -> None:
        self.publishing, self.subject = publishing, subject

    @classmethod
    def read(cls, said: str) -> Denial | None:
        """Return what an error of the server denies; None if it is about something else."""
        found = _SAID.search(said)
        return found and cls(publishing=found[1].lower() == "publish", subject=found[2].lower())

    @property
    def about(self) -> str:
        """Return the subject without what differs from one ack to the next."""
        words = self.subject.split(".")
        return ".".join(words[:4]) if words[:2] == ["$js", "ack"] else self.subject

    def error(self, subject: str) -> SubjectDenied:
        """Return the error that names `subject`, which is what has to be granted."""
        what = "publish" if self.publishing else "subscribe"
        return SubjectDenied(f"NATS does not let this user {what} to {subject}", remedy=REMEDY)


Tell = Callable[[Denial, str], None]


class Denials:
    """Listeners for denials, each with the patterns that it is about."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[tuple[str, ...], Tell]] = {}

    def hear(self, denial: Denial) -> None:
        """Tell all listeners that it is about, with the pattern that holds it."""
        for patterns, tell in list(self._listeners.values()):
            for pattern in patterns:
                if covers(pattern.lower(), denial.subject):
                    tell(denial, pattern)
                    break

    def listen(self, patterns: tuple[str, ...], tell: Tell) -> Callable[[], None]:
        """Have `tell` called for denials of these subjects; returns the function that ends it."""
        key = object()
        self._listeners[key] = patterns, tell
        return lambda: self._listeners.pop(key, None) and None

    @contextmanager
    def listening(self, patterns: tuple[str, ...], tell: Tell) -> Iterator[None]:
        """Do so inside the block."""
        stop = self.listen(patterns, tell)
        try:
            yield
        finally:
            stop()
