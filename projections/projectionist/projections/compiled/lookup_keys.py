"""The keys that an event looks up: fields of it, or what a function says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from projectionist.core.errors import DefinitionError
from projectionist.core.user_errors import RAISED, is_ours
from projectionist.projections.compiled.row_keys import check_kind
from projectionist.projections.errors import BadValue
from projectionist.projections.handlers import HandlerLookup
from projectionist.projections.tables.table_key import MOST_ROWS

if TYPE_CHECKING:
    from projectionist.projections.envelope import Envelope
    from projectionist.projections.event import AnyEvent
    from projectionist.projections.handlers import Handler
    from projectionist.projections.lookups import Lookup
    from projectionist.projections.tables.table_key import TableKey

Value = Callable[["AnyEvent", Callable[[], "Envelope"]], Any]


def ask_of(where: str, handler: Handler, name: str, declared: Lookup[Any]) -> HandlerLookup:
    """Return what a handler asks of one lookup. Raises DefinitionError."""
    key = declared.source.table.key
    assert key is not None, "it has columns"
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

    return HandlerLookup(name, declared.source, keys)


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
