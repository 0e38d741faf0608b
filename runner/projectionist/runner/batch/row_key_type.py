"""The type of aggregates whose ids are keys of a consumer's rows: two types never share a row because ids are alike.

It is the first, in stream order, of which an event was applied; live, rebuilt and verified rows refuse the events of
all others alike, and name the event that decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.projections.errors import BadValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projectionist.projections.folding.step import Step
    from projectionist.projections.handlers import Handler
    from projectionist.runner.decoding.delivery import Delivery


class OwnType:
    """The type, as far as it is known, and the event that decided it, where that is known."""

    def __init__(self, column: str, known: str | None = None, since: str | None = None) -> None:
        self.known, self.since = known, since
        self._column = column

    def check(self, handler: Handler, aggregate: str | None) -> None:
        """Raise BadValue where this aggregate is of another type, and its id would be the key of the row."""
        if handler.own and self.known is not None and kind_of(aggregate) != self.known:
            raise self.refusal(aggregate)

    def decide(self, handler: Handler, delivery: Delivery) -> None:
        """Note that this event was applied."""
        if handler.own and self.known is None:
            self.known, self.since = kind_of(delivery.aggregate), named(delivery)

    def refusal(self, aggregate: str | None) -> BadValue:
        """Return what is wrong with an event of this aggregate, whose type is another than the rows' own."""
        since = f", decided by {self.since}" if self.since else ""
        return BadValue(
            f"is the id of aggregates of type {self.known!r}{since}; this event is of an aggregate of type "
            f"{kind_of(aggregate)!r}. Give handlers of other types a key=; if the other event has the wrong type, "
            "mend its producer, or set aggregate_type of the consumer, and reset it",
            self._column,
        )


class RowOwner:
    """Follows the type through the fold of one batch, whose steps are of these events."""

    def __init__(self, own: OwnType, events: Sequence[tuple[int, Delivery]]) -> None:
        self._own, self._events = own, events
        self.decided: tuple[str, str] | None = None
        """The type that this batch has decided on, and the event."""

    def check(self, step: Step) -> None:
        """Raise BadValue where the step is of another type, and its aggregate's id would be the key."""
        self._own.check(step.handler, step.aggregate)

    def applied(self, step: Step) -> None:
        """Note that the step was applied: the first one decides."""
        if self._own.known is None and step.handler.own:
            delivery = self._events[step.index][1]
            self._own.decide(step.handler, delivery)
            self.decided = kind_of(delivery.aggregate), named(delivery)


def row_owner(own: OwnType, steps: Sequence[Step], events: Sequence[tuple[int, Delivery]]) -> RowOwner | None:
    """Return what follows the type through the fold of these steps; None where it is known, and that of them all."""
    if any(step.handler.own and kind_of(step.aggregate) != own.known for step in steps):
        return RowOwner(own, events)
    return None


def kind_of(aggregate: str | None) -> str:
    """Return the type of an aggregate as tables name it; empty without one."""
    return (aggregate or "").partition("/")[0]


def named(delivery: Delivery) -> str:
    """Return an event as errors name it."""
    return f"event {delivery.id} of {delivery.source} (sequence {delivery.seq})"
