"""A run of events as an `@on_batch` handler gets it: by column, for one statement; and intents, each of its event."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

from projectionist.outbox.intents.intent import Intent, Scheduled, Slotted
from projectionist.outbox.intents.schedule import Cancel
from projectionist.projections.event import AnyEvent, fields_of, type_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # the checkers know it, whatever Python runs this

    from projectionist.projections.envelope import Envelope

    E = TypeVar("E", bound=AnyEvent, default=Any)
else:
    from typing import TypeVar

    E = TypeVar("E")

Wish = Intent | Slotted | Scheduled | Cancel
W = TypeVar("W", bound=Wish)


class EventIntent(Generic[W]):
    """What a handler of many events asks for on behalf of one of them. `Events.intent` makes it."""

    __slots__ = ("events", "place", "wish")

    def __init__(self, events: Events[Any], place: int, wish: W) -> None:
        self.events, self.place, self.wish = events, place, wish


class Events(Generic[E]):
    """Events that stand next to each other in the order in which they are applied. Its lists have an entry for each."""

    def __init__(
        self,
        events: Sequence[E],
        envelopes: Sequence[Callable[[], Envelope]],
        aggregate_ids: Sequence[str | None],
        classes: Sequence[type],
    ) -> None:
        """Hold a run; `classes`: of all events that its handler declares, whether or not one of each is here."""
        self.aggregate_ids = list(aggregate_ids)
        """The ids of their aggregates, as texts."""
        self._envelopes, self._classes = envelopes, classes
        self._events = list(events)
        self._places = {id(event): place for place, event in enumerate(self._events)}
        if len(self._places) < len(self._events):  # an upcaster may give out the same object again and again
            self._events = [copy.copy(event) for event in self._events]
            self._places = {id(event): place for place, event in enumerate(self._events)}

    def __iter__(self) -> Iterator[E]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    @cached_property
    def types(self) -> list[str]:
        """Return the type of each, by its present name."""
        return [type_of(type(event)) or "" for event in self._events]

    @cached_property
    def envelopes(self) -> list[Envelope]:
        """Return the envelope of each."""
        return [made() for made in self._envelopes]

    def column(self, name: str) -> list[Any]:
        """Return a field of each; None for an event whose class has no such field.

        Raises AttributeError for a name that none of the handler's events has.
        """
        having = {one for one in self._classes if name in fields_of(one) or hasattr(one, name)}
        if not having:
            known = ", ".join(dict.fromkeys(field for one in self._classes for field in fields_of(one)))
            raise AttributeError(f"no event of this handler has the field {name!r}; they have {known}")
        return [getattr(event, name) if type(event) in having else None for event in self._events]

    def intent(self, event: E, wish: W) -> EventIntent[W]:
        """Return an intent of one of these events, to be returned by the handler: its key is made of that event."""
        place = self._places.get(id(event))
        if place is None:
            raise ValueError("an intent is of an event that this handler was given: pass the very object")
        return EventIntent(self, place, wish)


def asked_of(result: object, events: Events[Any]) -> dict[int, list[Wish]]:
    """Return what a handler asks for, by the place of its event. Raises TypeError for what is no answer of it."""
    asked: dict[int, list[Wish]] = {}
    if result is None:
        return asked
    if not isinstance(result, Iterable) or isinstance(result, str | bytes | dict):
        raise TypeError(
            f"a handler of runs answered with a {type(result).__name__}: return a list, or nothing"
        )
    for one in result:
        if not isinstance(one, EventIntent) or one.events is not events:
            raise TypeError(
                f"a handler of runs answered with a {type(one).__name__} of no event of its run: return"
                " [events.intent(event, Receipt(…))]"
            )
        asked.setdefault(one.place, []).append(one.wish)
    return asked
