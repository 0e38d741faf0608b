"""Who acts on the system by hand, and why; and what an action is refused for."""

from __future__ import annotations

import msgspec

from projectionist.core.errors import ProjectionistError


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
