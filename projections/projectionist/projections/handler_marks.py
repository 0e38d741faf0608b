"""`@on`: the events that a method handles, their row, and their condition; what of it type checkers can compare."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    get_origin,
    overload,
)

from projectionist.core.errors import DefinitionError
from projectionist.outbox.intents.intent import Intent, Scheduled, Slotted
from projectionist.outbox.intents.schedule import Cancel
from projectionist.projections.annotations import returned
from projectionist.projections.event import AnyEvent
from projectionist.projections.handler_results import Delete

if TYPE_CHECKING:
    from projectionist.projections.envelope import Envelope
    from projectionist.projections.tables.sql_tables import Tx

E = TypeVar("E", bound=AnyEvent)
E2 = TypeVar("E2", bound=AnyEvent)
E3 = TypeVar("E3", bound=AnyEvent)
S = TypeVar("S")
Wish = Intent | Slotted | Scheduled | Cancel
Answer = Wish | Delete | type[Delete] | Iterable[Wish | Delete | None] | None
R = TypeVar("R", bound=Answer)
X = TypeVar("X")
P = ParamSpec("P")

Key = str | tuple[str, ...] | Callable[..., object] | None
When = Callable[..., bool] | None
Each = Callable[..., Iterable[object]] | None
Below = str | tuple[str, ...] | None

ATTRIBUTE = "__projectionist__"
"""Where the class of a consumer or view keeps its compiled form."""
MARKS = "__projectionist_on__"


class On(NamedTuple):
    """The arguments of one `@on`, for one event."""

    event: type[AnyEvent]
    key: Key
    when: When
    each: Each = None
    rows: tuple[str, ...] = ()
    shared: bool = False
    key_reads_envelope: bool = False
    """Whether `key`, or `each`, takes it."""
    when_reads_envelope: bool = False
    batch: bool = False
    """The method takes a run of events at once."""


class Marker(Protocol[X]):
    """Takes a handler of these events, in one of the shapes that handlers have; the last takes lookups behind `*`."""

    @overload
    def __call__(self, method: Callable[[S, X], R], /) -> Callable[[S, X], R]: ...
    @overload
    def __call__(self, method: Callable[[S, X, Envelope], R], /) -> Callable[[S, X, Envelope], R]: ...
    @overload
    def __call__(
        self, method: Callable[[S, Tx, X], Awaitable[R]], /
    ) -> Callable[[S, Tx, X], Awaitable[R]]: ...
    @overload
    def __call__(
        self, method: Callable[[S, Tx, X, Envelope], Awaitable[R]], /
    ) -> Callable[[S, Tx, X, Envelope], Awaitable[R]]: ...
    @overload
    def __call__(self, method: Callable[Concatenate[S, X, P], R], /) -> Callable[Concatenate[S, X, P], R]: ...


@overload
def on(
    event: type[E],
    /,
    *,
    key: str | tuple[str, ...] | Callable[[E], object] | None = None,
    when: Callable[[Any, E], bool] | None = None,
) -> Marker[E]: ...
@overload
def on(
    event: type[E],
    /,
    *,
    key: Callable[[E, Envelope], object],
    when: Callable[[Any, E], bool] | None = None,
) -> Marker[E]: ...
@overload
def on(
    event: type[E],
    /,
    *,
    key: str | tuple[str, ...] | Callable[[E], object] | None = None,
    when: Callable[[Any, E, Envelope], bool],
) -> Marker[E]: ...
@overload
def on(
    event: type[E],
    /,
    *,
    key: Callable[[E, Envelope], object],
    when: Callable[[Any, E, Envelope], bool],
) -> Marker[E]: ...
@overload
def on(
    event: type[E],
    /,
    *,
    each: Callable[[E], Iterable[object]],
    shared: bool = False,
    when: Callable[[Any, E], bool] | Callable[[Any, E, Envelope], bool] | None = None,
) -> Marker[E]: ...
@overload
def on(
    event: type[E],
    /,
    *,
    each: Callable[[E, Envelope], Iterable[object]],
    shared: bool = False,
    when: Callable[[Any, E], bool] | Callable[[Any, E, Envelope], bool] | None = None,
) -> Marker[E]: ...
@overload
def on(
    event: type[E],
    /,
    *,
    rows: str | tuple[str, ...],
    key: str | tuple[str, ...] | Callable[[E], object] | Callable[[E, Envelope], object] | None = None,
    when: Callable[[Any, E], bool] | Callable[[Any, E, Envelope], bool] | None = None,
) -> Marker[E]: ...
@overload
def on(
    event: type[E],
    second: type[E2],
    /,
    *,
    key: str
    | tuple[str, ...]
    | Callable[[E | E2], object]
    | Callable[[E | E2, Envelope], object]
    | None = None,
    each: Callable[[E | E2], Iterable[object]] | Callable[[E | E2, Envelope], Iterable[object]] | None = None,
    rows: str | tuple[str, ...] | None = None,
    shared: bool = False,
    when: Callable[[Any, E | E2], bool] | Callable[[Any, E | E2, Envelope], bool] | None = None,
) -> Marker[E | E2]: ...
@overload
def on(
    event: type[E],
    second: type[E2],
    third: type[E3],
    /,
    *,
    key: str
    | tuple[str, ...]
    | Callable[[E | E2 | E3], object]
    | Callable[[E | E2 | E3, Envelope], object]
    | None = None,
    each: Callable[[E | E2 | E3], Iterable[object]]
    | Callable[[E | E2 | E3, Envelope], Iterable[object]]
    | None = None,
    rows: str | tuple[str, ...] | None = None,
    shared: bool = False,
    when: Callable[[Any, E | E2 | E3], bool] | Callable[[Any, E | E2 | E3, Envelope], bool] | None = None,
) -> Marker[E | E2 | E3]: ...
@overload
def on(
    event: type[AnyEvent],
    second: type[AnyEvent],
    third: type[AnyEvent],
    fourth: type[AnyEvent],
    /,
    *more: type[AnyEvent],
    key: Key = None,
    each: Each = None,
    rows: Below = None,
    shared: bool = False,
    when: When = None,
) -> Marker[Any]: ...
def on(
    *events: Any,
    key: Key = None,
    each: Each = None,
    rows: Below = None,
    shared: bool = False,
    when: When = None,
) -> Marker[Any]:
    """Make the method the handler of these events.

    Without `key` it gets the row of the event's own aggregate; of a key of several columns the first is the
    aggregate's id, and the others are the event's fields of their names. `key="field"`, or a tuple of fields, or a
    function of the event, or of event and envelope, takes the row's key from the event and makes the row shared by
    all aggregates.

    `each`, a function of the event, or of event and envelope, returns the keys of several rows: the method runs once
    with each. They begin with the aggregate's id, which may be left out; `shared=True` lets them be any.
    `rows="first"`, or a tuple of leading columns of the key, runs it with each row that is there and has these values:
    the aggregate's id and the event's fields of their names, or what `key` takes from the event. One row that fails
    fails the event.

    `when(row, event)` false, or `when(row, event, envelope)`: the row stays as it is, no intent is made, and the event
    counts as applied. `when=absent`: only if there is no row yet.
    """
    if not events:
        raise DefinitionError("@on names no event", remedy="Write @on(SomeEvent)")
    marks = tuple(checked(event, key, when, each, rows, shared=shared) for event in events)

    def mark(method: Callable[..., Any]) -> Callable[..., Any]:
        setattr(method, MARKS, (*marks, *getattr(method, MARKS, ())))
        return method

    return mark


def absent(row: object, event: object) -> bool:
    """Mark `when=`: the row does not exist yet. The first event of a key wins, later ones change nothing."""
    raise TypeError("absent is a mark for when=; it is not called")


def checked(
    event: type[AnyEvent],
    key: Key,
    when: When,
    each: Each = None,
    rows: Below = None,
    *,
    shared: bool = False,
) -> On:
    """Return the mark of one event. Raises DefinitionError."""
    if not _is_known(event):
        shown = getattr(event, "__name__", repr(event))
        raise DefinitionError(
            f"@on({shown}): that is no event with a type",
            remedy=f'Declare it: class {shown}(Event, type="…"), or put @event(type="…") above it',
        )
    _check_together(event, key, when, each, rows, shared=shared)
    by_envelope = False
    if each is not None:
        by_envelope = _check_each(event, each)
    elif not (key is None or isinstance(key, str) or _names_fields(key)):
        by_envelope = _check_key(event, key)
    return On(
        event=event,
        key=key,
        when=when,
        each=each,
        rows=(rows,) if isinstance(rows, str) else rows or (),
        shared=shared,
        key_reads_envelope=by_envelope,
        when_reads_envelope=when is not None and _check_when(event, when),
    )


def _check_together(
    event: type[AnyEvent], key: Key, when: When, each: Each, rows: Below, *, shared: bool
) -> None:
    """Refuse keywords that contradict each other."""
    where = f"@on({event.__name__}"
    if each is not None and (key is not None or rows is not None):
        other = "key" if key is not None else "rows"
        raise DefinitionError(
            f"{where}, each=…, {other}={key or rows!r})",
            remedy=f"each= gives whole keys: leave {other}= out; shared=True where they are not the aggregate's own",
        )
    if shared and each is None:
        raise DefinitionError(
            f"{where}, shared=True)", remedy="It belongs to each=; key= makes a row shared by itself"
        )
    if rows is None:
        return
    if not rows or not (isinstance(rows, str) or _names_fields(rows)):
        raise DefinitionError(
            f"{where}, rows={rows!r})", remedy='Name leading columns of the key: rows="order_id"'
        )
    if when is absent:
        raise DefinitionError(
            f"{where}, rows={rows!r}, when=absent)",
            remedy="rows= finds rows that are there: each= names keys",
        )


def _names_fields(key: object) -> bool:
    return isinstance(key, tuple) and all(isinstance(field, str) for field in key)


_UNORDERED = (set, frozenset)


def _check_each(event: type[AnyEvent], each: object) -> bool:
    """Refuse what cannot return keys in an order; True where it takes the envelope."""
    where = f"@on({event.__name__}, each={getattr(each, '__name__', each)})"
    cure = "each= is a function of the event, or of (event, envelope), that returns keys: each=lambda event: [(…), …]"
    if not callable(each):
        raise DefinitionError(where, remedy=cure)
    reads = reads_envelope(where, each, 1, cure)
    answer = returned(each)
    kind = get_origin(answer) or answer
    if kind in _UNORDERED:
        raise DefinitionError(f"{where} returns {answer}, which has no order", remedy="Return a list of keys")
    told = isinstance(kind, type) and kind not in (Any, object)
    if told and (not issubclass(kind, Iterable) or issubclass(kind, str | bytes)):
        raise DefinitionError(f"{where} returns {answer}", remedy=cure)
    return reads


_SEVERAL = (list, set, frozenset, dict, Iterable, Iterator, Sequence, Mapping)


def _check_key(event: type[AnyEvent], key: object) -> bool:
    """Refuse a key that would fail each event, or that returns several keys; True where it takes the envelope."""
    if not callable(key):
        raise DefinitionError(
            f"@on({event.__name__}, key={key!r})",
            remedy='key= is a field of the event ("customer"), a tuple of them or a function',
        )
    where = f"@on({event.__name__}, key={getattr(key, '__name__', key)})"
    cure = "A key is a function of the event, or of (event, envelope): key=lambda event: …"
    reads = reads_envelope(where, key, 1, cure)
    answer = returned(key)
    if (get_origin(answer) or answer) in _SEVERAL:
        raise DefinitionError(
            f"{where} returns {answer}, and an event has one row",
            remedy="Return one value; for an event that has several rows write each=",
        )
    return reads


def _check_when(event: type[AnyEvent], when: Callable[..., bool]) -> bool:
    """Refuse a condition that could not be called; True where it takes the envelope."""
    where = f"@on({event.__name__}, when={getattr(when, '__name__', when)})"
    cure = "A condition takes row and event, or (row, event, envelope): when=lambda row, event: …"
    if not callable(when):
        raise DefinitionError(where, remedy=cure)
    return reads_envelope(where, when, 2, cure)


def reads_envelope(where: str, function: Callable[..., object], least: int, cure: str) -> bool:
    """Return whether a function needs one argument more than `least`, the envelope; refuse any other number."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # one written in C says nothing
        return False
    for given in (least, least + 1):
        try:
            signature.bind(*[None] * given)
        except TypeError:
            continue
        return given > least
    raise DefinitionError(f"{where} takes {signature}", remedy=cure)


def _is_known(event: object) -> bool:
    return isinstance(event, type) and "__event_type__" in vars(event)
