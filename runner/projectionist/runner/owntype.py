"""The type of aggregates whose ids are keys of a consumer's rows: two types never share a row because ids are alike.

It is the first of which an event was applied; live, rebuilt and verified rows refuse the events of all others alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.projections.errors import BadValue

if TYPE_CHECKING:
    from projectionist.projections.handlers import Handler


class OwnType:
    """The type, as far as it is known."""

    def __init__(self, known: str | None = None) -> None:
        self.known = known

    def check(self, handler: Handler, aggregate: str | None) -> None:
        """Raise BadValue where this aggregate is of another type, and its id would be the key of the row."""
        if handler.own and self.known is not None and kind_of(aggregate) != self.known:
            raise refusal(self.known)

    def decide(self, handler: Handler, aggregate: str | None) -> None:
        """Note that an event of this aggregate was applied."""
        if handler.own and self.known is None:
            self.known = kind_of(aggregate)


def kind_of(aggregate: str | None) -> str:
    """The type of an aggregate as tables name it; empty without one."""
    return (aggregate or "").partition("/")[0]


def refusal(own: str) -> BadValue:
    """What is wrong with an event of another type than the rows' own."""
    return BadValue(f"is the id of aggregates of type {own!r}; give other types a key=")
