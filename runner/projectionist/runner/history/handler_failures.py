"""Handlers that fail on events which the live generation has applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.digest import stand_in
from projectionist.core.postgres.error_text import said
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
    """What may be said of it anywhere: the text of what a handler raised is content."""
    text: str
    """That text."""

    def __str__(self) -> str:
        kind = (self.aggregate or "").partition("/")[0]
        where = f"{stand_in(self.aggregate, kind)} v{self.version}" if self.aggregate else "an event"
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


def handler_failure(
    delivery: Delivery, error: BaseException | tuple[str, str], row: str = ""
) -> HandlerFailure:
    """Return a failure on an event, by what was raised, or by its class and text; `row`: on which of several."""
    d = delivery
    if isinstance(error, tuple):
        told, text = stand_in(error[1], error[0]), ": ".join(filter(None, error))
    else:
        told, text = said(error), f"{type(error).__name__}: {error}"
    text = f"{row}: {text}" if row else text
    return HandlerFailure(
        aggregate=d.aggregate, version=d.version, seq=d.seq, type=d.type, error=told, text=text
    )
