"""Fields are columns: from a field's type to its column, and between the two forms of a value."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Union, get_args, get_origin
from uuid import UUID

import msgspec

from projectionist.core.errors import DefinitionError
from projectionist.core.identifiers import checked
from projectionist.projections.errors import BadValue
from projectionist.projections.tables import column_values
from projectionist.projections.tables.column_values import Canonical
from projectionist.projections.tables.json_columns import called, document, is_struct

_PLAIN: dict[type, tuple[str, Canonical]] = {
    str: ("text", column_values.text),
    int: ("bigint", column_values.integer),
    float: ("double precision", column_values.real),
    bool: ("boolean", column_values.boolean),
    Decimal: ("numeric", column_values.numeric),
    bytes: ("bytea", column_values.binary),
    datetime: ("timestamptz", column_values.moment),
    date: ("date", column_values.day),
    UUID: ("uuid", column_values.unique),
}
_KEYS = (str, int, UUID, date, datetime)
_SYSTEM = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_LISTED = (
    "str, int, float, bool, Decimal, bytes, datetime, date, UUID, an Enum, list, dict or a msgspec.Struct"
)


class Column:
    """One column: its SQL type, and the way of a value into database form and back."""

    __slots__ = (
        "canonical",
        "default",
        "is_json",
        "is_key",
        "is_text",
        "kind",
        "name",
        "nullable",
        "sql_type",
        "thaw",
    )

    def __init__(
        self, name: str, kind: Any, sql_type: str, canonical: Canonical, thaw: Callable[[Any], Any] | None
    ) -> None:
        self.name = name
        self.kind = kind
        """The Python type without `| None`."""
        self.sql_type = sql_type
        self.canonical = canonical
        """From a handler's value to database form. Raises BadValue."""
        self.thaw = thaw
        """From database form to a handler's value; None where they are the same."""
        self.is_json = sql_type == "jsonb"
        self.is_text = sql_type in ("jsonb", "numeric")
        """It travels as text, so that database form is PostgreSQL's own and not the driver's."""
        self.nullable = False
        self.is_key = False
        self.default: Any = None
        """In database form."""

    def stored(self, value: Any) -> Any:
        """Bring `value` into database form; the BadValue it may raise names this column."""
        try:
            return self.canonical(value)
        except BadValue as bad:
            raise bad.at(self.name) from bad.__cause__


def columns_of(cls: type[msgspec.Struct], key: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns of a projection class in the order of its fields. Raises DefinitionError."""
    where = cls.__name__
    try:
        fields = msgspec.structs.fields(cls)
    except NameError as error:
        raise DefinitionError(
            f"{where}: {error}", remedy="Define the types of fields in the module, before the class"
        ) from error
    for name in key:
        if name not in {field.name for field in fields}:
            raise DefinitionError(
                f"{where} has no field {name!r}, which key= names", remedy=f"Add the field: {name}: str"
            )
    return tuple(_column(where, field, is_key=field.name in key) for field in fields)


def read_columns(where: str, fields: Mapping[str, Any], key: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns of a table that is only read, from the names and types of fields. Raises DefinitionError."""
    for name in key:
        if name not in fields:
            raise DefinitionError(
                f"{where} has no field {name!r}, which key= names",
                remedy=f"Its fields are: {', '.join(fields) or 'none'}",
            )
    return tuple(_declared(where, name, kind, is_key=name in key) for name, kind in fields.items())


def _column(where: str, field: msgspec.structs.FieldInfo, *, is_key: bool) -> Column:
    column = _declared(where, field.name, field.type, is_key=is_key)
    if not is_key:
        column.default = _default(f"{where}.{field.name}", field, column)
    return column


def _declared(where: str, name: str, declared: Any, *, is_key: bool) -> Column:
    place = f"{where}.{name}"
    if checked(name, what=f"column {place}") in _SYSTEM:
        raise DefinitionError(
            f"{place}: PostgreSQL keeps this name for itself", remedy="Call it something else"
        )
    kind, nullable = _without_none(declared)
    column = _typed(place, name, kind)
    column.nullable = nullable
    if is_key:
        _as_key(place, column)
    elif nullable:
        column.canonical = _or_none(column.canonical)
        column.thaw = column.thaw and _or_none(column.thaw)
    return column


def _typed(place: str, name: str, kind: Any) -> Column:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enumerated(place, name, kind)
    if kind in _PLAIN:
        sql_type, canonical = _PLAIN[kind]
        return Column(name, kind, sql_type, canonical, Decimal if kind is Decimal else None)
    if kind in (list, dict) or get_origin(kind) in (list, dict) or is_struct(kind):
        return Column(name, kind, "jsonb", *document(place, name, kind))
    raise DefinitionError(f"{place} is a {called(kind)}, which maps to no column", remedy=f"Use {_LISTED}")


def _enumerated(place: str, name: str, kind: type[Enum]) -> Column:
    kinds = {str if isinstance(member.value, str) else type(member.value) for member in kind}
    if kinds == {str}:
        return Column(name, kind, "text", column_values.member_of(kind, column_values.text), kind)
    if kinds == {int}:
        return Column(name, kind, "bigint", column_values.member_of(kind, column_values.integer), kind)
    raise DefinitionError(
        f"{place}: the members of {kind.__name__} are not all texts or all integers",
        remedy="Give every member a str, or every member an int",
    )


def _as_key(place: str, column: Column) -> None:
    enumerated = isinstance(column.kind, type) and issubclass(column.kind, Enum)
    if column.nullable or not (enumerated or column.kind in _KEYS):
        raise DefinitionError(
            f"{place} cannot be a key", remedy="A key is a str, int, UUID, date or datetime"
        )
    column.is_key = True
    if column.kind is str:
        column.canonical = column_values.key_text
    if column.sql_type == "text":
        column.sql_type = 'text collate "C"'  # locks are taken in this order, and bytes compare faster


def _default(place: str, field: msgspec.structs.FieldInfo, column: Column) -> Any:
    if field.default is not msgspec.NODEFAULT:
        value = again = field.default
    elif field.default_factory is not msgspec.NODEFAULT:
        value, again = field.default_factory(), field.default_factory()
    else:
        raise DefinitionError(
            f"{place} has no default", remedy="Give it one: a row starts with its key and the defaults"
        )
    try:
        stored = column.canonical(value)
        steady = stored == column.canonical(again)
        if column.thaw is not None:
            column.thaw(stored)
    except BadValue as bad:
        raise DefinitionError(f"the default of {place} {bad.reason}") from bad
    if not steady:
        raise DefinitionError(
            f"the default of {place} is another one each time", remedy="Set it in a handler, from the event"
        )
    return stored


def _without_none(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) is Annotated:
        return _without_none(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        rest = [inner for inner in get_args(kind) if inner is not type(None)]
        if len(rest) == 1 and len(get_args(kind)) == 2:
            return _without_none(rest[0])[0], True
    return kind, False


def _or_none(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def optional(value: Any) -> Any:
        return None if value is None else function(value)

    return optional
