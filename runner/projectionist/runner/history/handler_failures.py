"""Handlers that fail on events which the live generation has applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.runner.database.queries import RebuildError

if TYPE_CHECKING:
    from projectionist.runner.decoding.delivery import Delivery


MOST_TOLD = 20
"""So many events on which handlers failed are listed before a build stops."""


class HandlerFailure(msgspec.Struct, frozen=True):
    """An event that the live generation has applied, and on which a handler failed now."""

    aggregate: str | None
    version: int | None
    seq: int
    type: str
    error: str

    def __str__(self) -> str:
        where = f"{self.aggregate} v{self.version}" if self.aggregate else "an event"
        return f"{where} (sequence {self.seq}, {self.type}): {self.error}"


class HandlersFailed(RebuildError):
    """Handlers failed on events that the live generation has applied. Mend the code, and rebuild again."""

    def __init__(self, stumbles: Sequence[HandlerFailure]) -> None:
        super().__init__(
            "the handlers of this code fail on events that the live generation has applied: "
            + "; ".join(map(str, stumbles)),
            remedy="Mend the code and rebuild again, or edit the events",
        )
        self.stumbles = list(stumbles)


def handler_failure(delivery: Delivery, error: str) -> HandlerFailure:
    """Return a failure on an event, as it is told."""
    return HandlerFailure(delivery.aggregate, delivery.version, delivery.seq, delivery.type, error)
