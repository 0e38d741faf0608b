"""Row keys: that of an event's own aggregate, or one taken from the event."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from projectionist.core.errors import DefinitionError
from projectionist.projections.envelope import Envelope
from projectionist.projections.errors import BadValue
from projectionist.projections.event import Event
from projectionist.projections.handlers import Handler, RowKey
from projectionist.projections.tables import column_values
from projectionist.projections.tables.columns import Column


def row_key(where: str, handler: Handler, column: Column) -> RowKey:
    """Make the function from (aggregate id, event, envelope) to the key of the row, in database form.

    It raises BadValue where the event has no key that fits; making it raises DefinitionError.
    """
    if handler.key is None:
        return _own(where, handler, column)
    if isinstance(handler.key, str):
        return _of_field(where, handler.event, handler.key, column)
    return _computed(handler, column)


def echoes(handler: Handler, column: Column) -> bool:
    """Return True where the event has a field of the key's name, which has to agree with the aggregate's id."""
    return column.name in handler.event.__struct_fields__


def _own(where: str, handler: Handler, column: Column) -> RowKey:
    name = column.name
    read = _reader(where, handler, column)
    echoed = echoes(handler, column)
    if echoed:
        _check_kind(where, handler.event, name, column)

    def own(aggregate_id: str | None, event: Event, envelope: Callable[[], Envelope]) -> Any:
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


def _of_field(where: str, event_class: type[Event], field: str, column: Column) -> RowKey:
    _check_kind(where, event_class, field, column)
    stored = column.stored

    def shared(aggregate_id: str | None, event: Event, envelope: Callable[[], Envelope]) -> Any:
        return stored(getattr(event, field))

    return shared


def _computed(handler: Handler, column: Column) -> RowKey:
    function: Any = handler.key

    def computed(aggregate_id: str | None, event: Event, envelope: Callable[[], Envelope]) -> Any:
        return column.stored(function(event))

    def with_envelope(aggregate_id: str | None, event: Event, envelope: Callable[[], Envelope]) -> Any:
        return column.stored(function(event, envelope()))

    return with_envelope if handler.key_reads_envelope else computed


def _reader(where: str, handler: Handler, column: Column) -> Callable[[str], Any]:
    """Make the function from an aggregate's id to a key: one text a key, or two aggregates would share a row."""
    if column.kind is str:
        return column_values.key_text
    write: Callable[[Any], str] = str
    if column.kind in (int, UUID):
        parse = column.kind
    elif column.kind is date:
        parse = date.fromisoformat
    elif issubclass(column.kind, Enum):
        members = {str(member.value): member.value for member in column.kind}
        return lambda text: _listed(members, text)
    else:
        raise DefinitionError(
            f"{where}.{handler.name}: a {column.kind.__name__} key cannot be read from an aggregate's id",
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


def _check_kind(where: str, event: type[Event], name: str, column: Column) -> None:
    field = next((field for field in msgspec.structs.fields(event) if field.name == name), None)
    if field is None:
        raise DefinitionError(
            f"{where}: {event.__name__} has no field {name!r}, which key= names",
            remedy=f"Its fields are: {', '.join(event.__struct_fields__) or 'none'}",
        )
    if isinstance(field.type, type) and not issubclass(field.type, column.kind):
        raise DefinitionError(
            f"{where}: {event.__name__}.{name} is a {field.type.__name__}, the key {column.name} is a "
            f"{column.kind.__name__}",
            remedy="Give both one type",
        )
