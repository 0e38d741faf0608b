"""What handlers look up, and the keys of it that an event names: fields of it, or what a function says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from projectionist.core.errors import DefinitionError
from projectionist.core.user_errors import RAISED, is_ours
from projectionist.projections.compiled.row_keys import check_kind, reader
from projectionist.projections.errors import BadValue
from projectionist.projections.handlers import HandlerLookup
from projectionist.projections.lookups import Lookup, LookupSource, Reference
from projectionist.projections.tables.table_key import MOST_ROWS

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.envelope import Envelope
    from projectionist.projections.event import AnyEvent
    from projectionist.projections.handlers import Handler
    from projectionist.projections.tables.table_key import TableKey

Value = Callable[["AnyEvent", Callable[[], "Envelope"]], Any]


def looked_up_classes(handlers: Iterable[Handler]) -> tuple[type, ...]:
    """Return the classes of the views that these handlers look up."""
    found = (one.source for handler in handlers for one in handler.lookups.values())
    return tuple(dict.fromkeys(one for one in found if not isinstance(one, Reference)))


def looked_up_of(
    cls: type, consumer: str | None, handlers: Iterable[Handler], siblings: Mapping[type, Definition]
) -> tuple[Definition, ...]:
    """Return the views of the same set that a class looks up. Raises DefinitionError.

    They go in no circle: a class has to be there before another can name it.
    """
    for one in looked_up_classes(handlers):
        if one not in siblings:
            raise DefinitionError(
                f"{cls.__name__} looks up {one.__name__}, which is no view of "
                + ("a set with it" if consumer is None else f"{consumer}"),
                remedy=f"List both in one ViewSet, views=[{one.__name__}, {cls.__name__}, …]; or look its table up "
                "as one of others: lookup(reference(…))",
            )
        if siblings[one].table is None:
            raise DefinitionError(
                f"{cls.__name__} looks up {one.__name__}, which has no rows", remedy="Look a Projection up"
            )
    return tuple(siblings[one] for one in looked_up_classes(handlers))


def ask_of(
    where: str, handler: Handler, name: str, declared: Lookup[Any], siblings: Mapping[type, Definition]
) -> HandlerLookup:
    """Return what a handler asks of one lookup. Raises DefinitionError."""
    view, source = _source(declared, siblings)
    key = source.table.key
    assert key is not None, "it has columns"
    is_own = view is not None and declared.by is None
    if view is not None and is_own:
        value_of = _own(f"{where}.{name}", view, key)
    else:
        value_of = _value(f"{where}.{name}", handler, declared, key)
    plain = None if key.several else key.first.kind
    canonical = key.first.canonical

    def keys(event: AnyEvent, envelope: Callable[[], Envelope]) -> tuple[Any, ...]:
        try:
            value = value_of(event, envelope)
            if value.__class__ is plain:  # nearly always
                return (canonical(value),)
            return () if value is None else _stored(value, key)
        except BadValue as bad:
            raise BadValue(f"{name} cannot be looked up: its key {bad}") from bad

    is_exact = is_own and view is not None and view.is_exact
    return HandlerLookup(name, source, keys, is_own=is_own, is_exact=is_exact)


def _source(
    declared: Lookup[Any], siblings: Mapping[type, Definition]
) -> tuple[Definition | None, LookupSource[Any]]:
    """Return the view that is looked up, where it is one, and its rows."""
    if isinstance(declared.source, Reference):
        return None, declared.source
    view = siblings[declared.source]
    return view, view.source


def _own(where: str, view: Definition, key: TableKey) -> Value:
    """Return what makes the key of a view's row of the event's own aggregate, which its position's lock covers."""
    if key.several or view.sequence == "unordered" or not all(one.own for one in view.handlers.values()):
        raise DefinitionError(
            f"{where}: {view.name} has no row that is of the event's aggregate alone",
            remedy=f'Say which of its rows an event needs: lookup({view.name}, by="field"), or by=lambda event: …',
        )
    read = reader(where, key.first)

    def own(event: AnyEvent, envelope: Callable[[], Envelope]) -> Any:
        aggregate_id = envelope().aggregate_id
        try:
            return None if aggregate_id is None else read(aggregate_id)
        except ValueError as error:
            raise BadValue("does not fit the aggregate's id") from error

    return own


def _value(where: str, handler: Handler, declared: Lookup[Any], key: TableKey) -> Value:
    if not isinstance(declared.by, str | tuple):
        return _computed(declared)
    fields = (declared.by,) if isinstance(declared.by, str) else declared.by
    if len(fields) != len(key.columns):
        raise DefinitionError(
            f"{where}: by={declared.by!r} is no key of {', '.join(key.names)}",
            remedy="Name a field of the event for each of these columns, in this order, or write a function",
        )
    for field, column in zip(fields, key.columns, strict=True):
        check_kind(where, handler.event, field, column, "by=")
    (first, *rest) = fields

    def one(event: AnyEvent, envelope: Callable[[], Envelope]) -> Any:
        return getattr(event, first)

    def several(event: AnyEvent, envelope: Callable[[], Envelope]) -> Any:
        parts = tuple(getattr(event, field) for field in fields)
        return None if None in parts else parts

    return several if rest else one


def _computed(declared: Lookup[Any]) -> Value:
    function: Any = declared.by

    def computed(event: AnyEvent, envelope: Callable[[], Envelope]) -> Any:
        try:
            return function(event, envelope()) if declared.by_reads_envelope else function(event)
        except RAISED as error:  # a user's function, whose error is its event's failure
            if is_ours(error):
                raise
            raise BadValue(f"is not known: by= raised {type(error).__name__}: {error}") from error

    return computed


def _stored(value: Any, key: TableKey) -> tuple[Any, ...]:
    """Bring keys into database form: a list holds several; so does a tuple, where a key is one value."""
    several = (list, set, frozenset) if key.several else (list, set, frozenset, tuple)
    if not isinstance(value, several):
        return (key.stored(value),)
    if len(value) > MOST_ROWS:
        raise BadValue(f"is one of more than {MOST_ROWS:,}, the most of one event")
    return tuple(key.stored(one) for one in value)
