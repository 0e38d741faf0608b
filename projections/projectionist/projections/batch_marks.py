"""`@on_batch`: the events that one call of a SqlProjection's method handles, and what type checkers compare."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from projectionist.core.errors import DefinitionError
from projectionist.projections.event import AnyEvent
from projectionist.projections.event_batch import EventIntent, Events
from projectionist.projections.handler_marks import MARKS, checked

if TYPE_CHECKING:
    from projectionist.projections.tables.sql_tables import Tx

E = TypeVar("E", bound=AnyEvent)
E2 = TypeVar("E2", bound=AnyEvent)
E3 = TypeVar("E3", bound=AnyEvent)
S = TypeVar("S")
B = TypeVar("B", bound="Iterable[EventIntent[Any]] | None")
X = TypeVar("X", bound=AnyEvent)


class BatchMarker(Protocol[X]):
    """Takes a handler of runs of these events."""

    def __call__(
        self, method: Callable[[S, Tx, Events[X]], Awaitable[B]], /
    ) -> Callable[[S, Tx, Events[X]], Awaitable[B]]:
        """Return the method, marked."""


@overload
def on_batch(event: type[E], /) -> BatchMarker[E]: ...
@overload
def on_batch(event: type[E], second: type[E2], /) -> BatchMarker[E | E2]: ...
@overload
def on_batch(event: type[E], second: type[E2], third: type[E3], /) -> BatchMarker[E | E2 | E3]: ...
@overload
def on_batch(
    event: type[AnyEvent],
    second: type[AnyEvent],
    third: type[AnyEvent],
    fourth: type[AnyEvent],
    /,
    *more: type[AnyEvent],
) -> BatchMarker[Any]: ...
def on_batch(*events: Any) -> BatchMarker[Any]:
    """Make the method of a SqlProjection the handler of runs of these events, one call a run: `(self, tx, events)`.

    A run is a stretch of events that follow each other in a batch; an event that another method handles ends it. Where
    runs are cut is up to the runner, so what is written must not depend on it. An intent is returned as one of an event
    of the run, `events.intent(event, Receipt(…))`.
    """
    if not events:
        raise DefinitionError("@on_batch names no event", remedy="Write @on_batch(SomeEvent)")
    marks = tuple(checked(event, None, None)._replace(batch=True) for event in events)

    def mark(method: Callable[..., Any]) -> Callable[..., Any]:
        setattr(method, MARKS, (*marks, *getattr(method, MARKS, ())))
        return method

    return mark
