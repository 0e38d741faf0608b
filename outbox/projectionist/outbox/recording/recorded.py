"""What a call of `record` answers, and what it raises."""

from __future__ import annotations

import msgspec

from projectionist.core.errors import ProjectionistError


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one call. `App.wait_for` takes it, and `projectionist journey` finds each of the ids."""

    stream: str
    source: str
    aggregate: str
    version: int
    """Of the last event; the next call expects it."""
    ids: tuple[str, ...]
    sequence: int | None = None
    """Of the last event in the stream; None where the relay is yet to publish it."""
    token: str | None = None
    """Of the last event, for readers elsewhere (`App.wait_for_all`); None without a sequence."""
    hashes: tuple[bytes, ...] = ()
    """What consumers know the content of the last event by: another event may bear its id."""
    repeated: bool = False
    """An earlier call under the same `id` had recorded them; this one has written nothing."""

    @property
    def id(self) -> str:
        """Return the id of the last event."""
        return self.ids[-1]


class VersionConflict(ProjectionistError):
    """Somebody else has moved the aggregate: nothing was recorded. Read it again, and decide again."""

    def __init__(
        self, aggregate: str, expected: int, actual: int, recorded: Recorded | None = None, note: str = ""
    ) -> None:
        super().__init__(
            f"{aggregate} is at version {actual}, and {expected} was expected{note}",
            remedy="Read it again and decide again. A request that may come twice gives record(id=…)",
        )
        self.aggregate = aggregate
        self.expected = expected
        self.actual = actual
        self.recorded = recorded
        """Where these very events stand behind the expected version: by an earlier try, or by somebody else's."""


class EventReused(ProjectionistError):
    """The id is that of an event with other content, type or aggregate: nothing was recorded. Give another id."""
