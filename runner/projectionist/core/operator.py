"""Who acts on the system by hand, and why; and what an action is refused for."""

from __future__ import annotations

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.printable_text import is_text

MOST_ACTOR, MOST_REASON = 200, 2_000
"""So many characters have who acts, and why: both are shown in lists."""


class TooLate(ProjectionistError):
    """What the operator saw is no longer so; look again."""


class NotThere(ProjectionistError):
    """The action does not fit the state of the event or aggregate it names."""


class Act(msgspec.Struct, frozen=True):
    """Who acts, and why."""

    actor: str
    reason: str

    def __post_init__(self) -> None:
        if not self.actor.strip() or not self.reason.strip():
            raise NotThere(
                "an act needs an actor and a reason", remedy="Say who you are and why this is right"
            )
        if len(self.actor) > MOST_ACTOR or len(self.reason) > MOST_REASON:
            told = f"an actor has {MOST_ACTOR} characters at most, and a reason {MOST_REASON:,}"
            raise NotThere(told, remedy="Say it in short, and where the rest stands")
        if not is_text(self.actor + self.reason):
            raise NotThere("actor or reason is no text", remedy="Write it in UTF-8, without zero bytes")
