"""`@on`: the event that a method handles, its row, and its condition."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, get_origin

from projectionist.core.errors import DefinitionError
from projectionist.projections.annotations import no_answer, returned
from projectionist.projections.copying import is_mutable
from projectionist.projections.event import Event, formerly_of, type_of

E = TypeVar("E", bound=Event)
Method = TypeVar("Method", bound=Callable[..., Any])
Key = str | Callable[[Any], object] | None
When = Callable[[Any, Any], bool] | None
RowKey = Callable[[str | None, Event], Any]

_MARK = "__projectionist_on__"


class On(NamedTuple):
    """The arguments of one `@on`."""

    event: type[Event]
    key: Key
    when: When


class Handler:
    """One event's handler: the method that the fold calls, and its row's key."""

    __slots__ = (
        *("absent", "bare", "by_id", "call", "copies", "envelope", "event", "key", "name", "own"),
        *("row_key", "when"),
    )

    def __init__(self, name: str, call: Callable[..., Any], mark: On, *, envelope: bool) -> None:
        self.name = name
        self.event = mark.event
        self.call = call
        self.key = mark.key
        self.own = mark.key is None
        """The row is the aggregate's own, so that the position's lock covers it."""
        self.absent = mark.when is absent
        self.when = None if self.absent else mark.when
        self.envelope = envelope
        """The method takes the Envelope as its last argument."""
        self.copies = is_mutable(mark.event)
        """The event must be copied for each call, because a handler could change its values."""
        self.bare = not (self.absent or self.when or self.envelope or self.copies)
        """It is called with row and event as they are, without a condition: nearly always."""
        self.by_id = False
        """The aggregate's id alone names the row, so that it is the same for every event."""
        self.row_key: RowKey = _no_row
        """From aggregate id and event to the row's key in database form. Raises BadValue."""


def on(
    event: type[E],
    *,
    key: str | Callable[[E], object] | None = None,
    when: Callable[[Any, E], bool] | None = None,
) -> Callable[[Method], Method]:
    """Make the method the handler of `event`.

    Without `key` it gets the row of the event's own aggregate. `key="field"` (or a function of the event)
    takes the row's key from the event and makes the row shared by all aggregates. `when(row, event)` false:
    the row stays as it is, no intent is made, and the event counts as applied. `when=absent`: only if there
    is no row yet.
    """
    if not _is_known(event):
        shown = getattr(event, "__name__", repr(event))
        raise DefinitionError(
            f"@on({shown}): that is no event with a type",
            remedy=f'Declare it: class {shown}(Event, type="…"), and pass the class itself',
        )
    if key is not None and not isinstance(key, str):
        _check_key(event, key)

    def mark(method: Method) -> Method:
        marks = getattr(method, _MARK, ())
        setattr(method, _MARK, (On(event, key, when), *marks))
        return method

    return mark


_SEVERAL = (list, tuple, set, frozenset, dict, Iterable, Iterator, Sequence, Mapping)


def _check_key(event: type[Event], key: Callable[..., object]) -> None:
    """Refuse a key that would fail each event: no function of one parameter, or one that returns several keys."""
    if not callable(key):
        raise DefinitionError(
            f"@on({event.__name__}, key={key!r})",
            remedy='key= is a field of the event ("customer") or a function',
        )
    where = f"@on({event.__name__}, key={getattr(key, '__name__', key)})"
    try:
        signature = inspect.signature(key)
    except ValueError:  # one written in C says nothing
        return
    try:
        signature.bind(None)
    except TypeError:
        raise DefinitionError(
            f"{where} takes {signature}", remedy="A key is a function of the event alone: key=lambda event: …"
        ) from None
    answer = returned(key)
    if (get_origin(answer) or answer) in _SEVERAL:
        raise DefinitionError(
            f"{where} returns {answer}, and an event has one row",
            remedy="Return one value; an event that changes several rows is for a SqlProjection",
        )


def _is_known(event: object) -> bool:
    return isinstance(event, type) and issubclass(event, Event) and type_of(event) is not None


def absent(row: object, event: object) -> bool:
    """Mark `when=`: the row does not exist yet. The first event of a key wins, later ones change nothing."""
    raise TypeError("absent is a mark for when=; it is not called")


def collected(cls: type, *, has_row: bool, is_async: bool = False) -> dict[str, Handler]:
    """Collect the handlers of `cls` by event type, former types included. Raises DefinitionError."""
    takes = 3 if is_async else 2
    handlers: dict[str, Handler] = {}
    for name, method, mark in _marked(cls):
        handler = Handler(name, method, mark, envelope=_takes_envelope(cls, name, method, takes))
        _check_colour(cls, name, method, is_async=is_async)
        if (wrong := no_answer(method)) is not None:
            raise DefinitionError(
                f"{cls.__name__}.{name} returns {getattr(wrong, '__name__', wrong)}, which is no answer of a handler",
                remedy="Return or yield Intents, Delete() or nothing; the row's new values are assigned to self",
            )
        if not has_row:
            _check_rowless(cls, name, mark, is_async=is_async)
        for kind in (type_of(mark.event) or "", *formerly_of(mark.event)):
            if kind in handlers:
                raise DefinitionError(
                    f"{cls.__name__} handles {kind!r} twice, in {handlers[kind].name} and {name}",
                    remedy="Handle it in one method: two have no order",
                )
            handlers[kind] = handler
    if not handlers:
        raise DefinitionError(f"{cls.__name__} handles no event", remedy="Put @on(SomeEvent) on a method")
    return handlers


def _marked(cls: type) -> Iterator[tuple[str, Callable[..., Any], On]]:
    for name in dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base)):
        method = inspect.getattr_static(cls, name)
        for mark in getattr(method, _MARK, ()):
            if not inspect.isfunction(method):
                raise DefinitionError(
                    f"{cls.__name__}.{name} is no plain method",
                    remedy="Put @on on a function that takes self",
                )
            yield name, method, mark


def _takes_envelope(cls: type, name: str, method: Callable[..., Any], takes: int) -> bool:
    parameters = inspect.signature(method).parameters.values()
    given = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(given) != len(parameters) or not takes <= len(given) <= takes + 1:
        usual = "self, event" if takes == 2 else "self, tx, event"
        raise DefinitionError(
            f"{cls.__name__}.{name} takes ({', '.join(map(str, parameters))})",
            remedy=f"A handler here takes ({usual}) or ({usual}, envelope)",
        )
    return len(given) == takes + 1


def _check_colour(cls: type, name: str, method: Callable[..., Any], *, is_async: bool) -> None:
    where = f"{cls.__name__}.{name}"
    if is_async and not inspect.iscoroutinefunction(method):
        raise DefinitionError(
            f"{where} is not a plain `async def`", remedy="Write `async def`, and return a list of intents"
        )
    if not is_async and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)):
        raise DefinitionError(
            f"{where} is async, and handlers of this kind are pure",
            remedy="Write `def` and return an Intent for what goes outside; SQL of your own: SqlProjection",
        )


def _check_rowless(cls: type, name: str, mark: On, *, is_async: bool) -> None:
    keyword = (
        "key" if mark.key is not None else "when" if mark.when is absent or (is_async and mark.when) else ""
    )
    if keyword:
        raise DefinitionError(
            f"{cls.__name__}.{name} has {keyword}=, and there is no row for it",
            remedy="Decide it in the handler; rows of its own has a Projection",
        )


def _no_row(aggregate_id: str | None, event: Event) -> None:
    """Refuse what finds a row: reactors and SqlProjections have none to find."""
