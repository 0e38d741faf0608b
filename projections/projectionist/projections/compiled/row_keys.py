"""Row keys: that of an event's own aggregate, or one taken from the event; of one column, or of several."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import Any, get_origin
from uuid import UUID

from projectionist.core.errors import DefinitionError
from projectionist.projections.annotations import returned
from projectionist.projections.compiled.event_rows import below, each_key, prefix_of
from projectionist.projections.envelope import Envelope
from projectionist.projections.errors import BadValue
from projectionist.projections.event import AnyEvent, fields_of
from projectionist.projections.handlers import Handler, RowKey
from projectionist.projections.tables import column_values
from projectionist.projections.tables.columns import Column
from projectionist.projections.tables.table_key import TableKey


def row_key(where: str, handler: Handler, key: TableKey) -> RowKey:
    """Make the function from (aggregate id, event, envelope) to the key of the row, in database form; of a handler of
    several rows, to their Keys or Prefix.

    It raises BadValue where the event has no key that fits; making it raises DefinitionError.
    """
    if handler.each is not None:
        return each_key(where, handler, key, None if not handler.own else _own(where, handler, key.first))
    if handler.rows:
        leading = below(where, handler, key)
        return prefix_of(leading, _key(where, handler, leading))
    return _key(where, handler, key)


def _key(where: str, handler: Handler, key: TableKey) -> RowKey:
    if handler.key is None:
        own = _own(where, handler, key.first)
        return _own_of_several(where, handler, own, key) if key.several else own
    if not isinstance(handler.key, str | tuple):
        return _computed(where, handler, key)
    fields = (handler.key,) if isinstance(handler.key, str) else handler.key
    if len(fields) != len(key.columns):
        raise DefinitionError(
            f"{where}.{handler.name}: key={handler.key!r} is no key of {', '.join(key.names)}",
            remedy="Name a field of the event for each of these columns, in this order, or write a function",
        )
    if not key.several:
        return _of_field(where, handler.event, fields[0], key.first)
    return _of_fields(where, handler.event, fields, key)


def by_id(handler: Handler, key: TableKey) -> bool:
    """Return True where the aggregate's id alone names the row, so that it is the same for every event."""
    return handler.own and not (key.several or handler.several or echoes(handler, key.first))


def echoes(handler: Handler, column: Column) -> bool:
    """Return True where the event has a field of the key's name, which has to agree with the aggregate's id."""
    return column.name in fields_of(handler.event)


def _own(where: str, handler: Handler, column: Column) -> RowKey:
    name = column.name
    read = reader(f"{where}.{handler.name}", column)
    echoed = echoes(handler, column)
    if echoed:
        check_kind(where, handler.event, name, column)

    def own(aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]) -> Any:
        if aggregate_id is None:
            raise BadValue("is the aggregate's id, and the event names no aggregate", name)
        try:
            key = read(aggregate_id)
        except (BadValue, ValueError) as error:
            reason = error.reason if isinstance(error, BadValue) else "does not fit the aggregate's id"
            raise BadValue(reason, name) from error
        if echoed and (value := getattr(event, name)) != key and column.canonical(value) != key:
            raise BadValue("has another value in the event than the aggregate's id", name)
        return key

    return own


def _own_of_several(where: str, handler: Handler, own: RowKey, key: TableKey) -> RowKey:
    """Make a key that begins with the aggregate's id; the other columns are the event's fields of their names."""
    rest = key.columns[1:]
    missing = [column.name for column in rest if column.name not in fields_of(handler.event)]
    if missing:
        raise DefinitionError(
            f"{where}.{handler.name}: {handler.event.__name__} has no field {missing[0]!r}, a column of the key",
            remedy='Name the fields, @on(…, key=("order_id", "line")), or write a function: key=lambda event: …',
        )
    for column in rest:
        check_kind(where, handler.event, column.name, column)

    def several(aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]) -> Any:
        first = own(aggregate_id, event, envelope)
        return (first, *(column.stored(getattr(event, column.name)) for column in rest))

    return several


def _of_fields(where: str, event_class: type[AnyEvent], fields: tuple[str, ...], key: TableKey) -> RowKey:
    for field, column in zip(fields, key.columns, strict=True):
        check_kind(where, event_class, field, column)

    def shared(aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]) -> Any:
        return key.stored([getattr(event, field) for field in fields])

    return shared


def _of_field(where: str, event_class: type[AnyEvent], field: str, column: Column) -> RowKey:
    check_kind(where, event_class, field, column)
    stored = column.stored

    def shared(aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]) -> Any:
        return stored(getattr(event, field))

    return shared


def _computed(where: str, handler: Handler, key: TableKey) -> RowKey:
    function: Any = handler.key
    answer = returned(function)
    if not key.several and (get_origin(answer) or answer) is tuple:
        raise DefinitionError(
            f"{where}.{handler.name}: key= returns {answer}, and the key of {where} is one column, {key.first.name}",
            remedy='Return one value, or give the table a key of several columns: key=("order_id", "line")',
        )
    stored = key.stored

    def computed(aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]) -> Any:
        return stored(function(event))

    def with_envelope(aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]) -> Any:
        return stored(function(event, envelope()))

    return with_envelope if handler.key_reads_envelope else computed


def reader(where: str, column: Column) -> Callable[[str], Any]:
    """Make the function from an aggregate's id to a key: one text a key, or two aggregates would share a row."""
    if column.kind is str:
        return column_values.key_text
    write: Callable[[Any], str] = str
    if column.kind in (int, UUID):
        parse = column.kind
    elif column.kind is date:
        parse = date.fromisoformat
    elif issubclass(column.kind, Enum):
        members = {str(member.value): column.canonical(member) for member in column.kind}
        return lambda text: _listed(members, text)
    else:
        raise DefinitionError(
            f"{where}: a {column.kind.__name__} key cannot be read from an aggregate's id",
            remedy='Take it from the event: @on(…, key="field")',
        )

    def exact(text: str) -> Any:
        key = column.canonical(parse(text))
        if write(key) != text:
            raise BadValue(f"is not the one way to write this {column.kind.__name__} as an aggregate's id")
        return key

    return exact


def _listed(members: dict[str, Any], text: str) -> Any:
    if text not in members:
        raise BadValue("is no member's value")
    return members[text]


def check_kind(where: str, event: type[AnyEvent], name: str, column: Column, keyword: str = "key=") -> None:
    """Refuse a field that is not there, or cannot be a value of this column, where a keyword names it."""
    fields = fields_of(event)
    if name not in fields:
        raise DefinitionError(
            f"{where}: {event.__name__} has no field {name!r}, which {keyword} names",
            remedy=f"Its fields are: {', '.join(fields) or 'none'}",
        )
    kind = fields[name]
    if isinstance(kind, type) and not issubclass(kind, column.kind):
        raise DefinitionError(
            f"{where}: {event.__name__}.{name} is a {kind.__name__}, the key {column.name} is a "
            f"{column.kind.__name__}",
            remedy="Give both one type",
        )
