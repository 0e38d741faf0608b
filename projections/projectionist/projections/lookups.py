"""`lookup`: rows of another table that handlers may read, those of the keys that their event names and no others.

Declared, so that a batch reads what all its events need in one statement, and so that a handler stays a function of its
row, its event and what it was given. The table is somebody else's, or that of another view of the same set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any, Generic, TypeVar, cast, overload

import msgspec

from projectionist.core.errors import DefinitionError
from projectionist.projections.errors import BadValue
from projectionist.projections.event import fields_of
from projectionist.projections.handler_marks import ATTRIBUTE, reads_envelope
from projectionist.projections.tables.columns import Column, read_columns
from projectionist.projections.tables.table import Table
from projectionist.projections.tables.table_key import MOST_COLUMNS

R = TypeVar("R")
V = TypeVar("V", bound=msgspec.Struct)
By = str | tuple[str, ...] | Callable[..., object] | None


class LookupSource(Generic[R]):
    """A table that handlers look up, and the class of its rows as tests give them."""

    __slots__ = ("row", "table")

    def __init__(self, row: type[R], table: Table) -> None:
        self.row = row
        self.table = table

    def thawed(self, stored: Sequence[Any]) -> R:
        """Return a row as handlers see it. Raises BadValue where the table holds what the class does not declare."""
        raise NotImplementedError

    def stored(self, row: R) -> tuple[Any, ...]:
        """Return a row in database form. Raises BadValue."""
        return tuple(column.stored(getattr(row, column.name)) for column in self.table.columns)


class ViewSource(LookupSource[R]):
    """The table of another view of the set. Rows are handed out frozen, since one serves several handlers."""

    __slots__ = ("_frozen", "_thaws")

    def __init__(self, row: type[R], table: Table) -> None:
        super().__init__(row, table)
        kind: Any = type(row)
        self._frozen: Any = kind(row.__name__, (row,), {"__module__": row.__module__}, frozen=True)
        self._thaws = [(at, column.thaw) for at, column in enumerate(table.columns) if column.thaw]

    def __repr__(self) -> str:
        return self.row.__name__

    def thawed(self, stored: Sequence[Any]) -> R:
        """Return a row as handlers see it: an instance of the view's class, frozen."""
        if not self._thaws:
            return cast("R", self._frozen(*stored))
        values = list(stored)
        for at, thaw in self._thaws:
            values[at] = thaw(values[at])
        return cast("R", self._frozen(*values))


class Reference(LookupSource[R]):
    """A table that others write, as far as handlers look it up. `reference` makes it."""

    __slots__ = ("_hash", "_identity", "_names", "_thaws")

    def __init__(self, row: type[R], table: Table) -> None:
        super().__init__(row, table)
        self._identity = table.public, row, None if table.key is None else table.key.names
        self._hash = hash(self._identity)
        self._names = [one.name for one in table.columns]
        self._thaws = [one.thaw or one.canonical for one in table.columns]

    def __repr__(self) -> str:
        return f"reference({self.table.public!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._identity == other._identity

    def __hash__(self) -> int:
        return self._hash

    def thawed(self, stored: Sequence[Any]) -> R:
        """Return a row as handlers see it. Raises BadValue where the table holds what the class does not declare."""
        try:
            values = [thaw(value) for thaw, value in zip(self._thaws, stored, strict=True)]
        except (TypeError, ValueError):  # the same once more, by name
            values = [self._seen(one, value) for one, value in zip(self.table.columns, stored, strict=True)]
        return self.row(**dict(zip(self._names, values, strict=True)))

    def _seen(self, column: Column, value: Any) -> Any:
        place = f"{self.table.public}.{column.name}"
        if value is None:
            if column.nullable:
                return None
            raise BadValue(f"{place} is null, and {self.row.__name__} does not declare it `| None`")
        try:
            return column.canonical(value) if column.thaw is None else column.thaw(value)
        except ValueError as error:
            reason = error.reason if isinstance(error, BadValue) else "holds what is no value of its type"
            raise BadValue(f"{place} {reason}") from error


class Lookup(Generic[R]):
    """Rows of one source that handlers of a class may ask for, by its name. `lookup` makes it."""

    __slots__ = ("by", "by_reads_envelope", "source")

    def __init__(self, source: Reference[R] | type[R], by: By, *, by_reads_envelope: bool) -> None:
        self.source = source
        """A table of others, or the class of another view of the set."""
        self.by = by
        """None: the row of the event's own aggregate."""
        self.by_reads_envelope = by_reads_envelope


def reference(name: str, row: type[R], /, *, key: str | tuple[str, ...]) -> Reference[R]:
    """Declare a table that others write: `reference("public.tax_rates", TaxRate, key="country")`.

    `row` is a frozen dataclass or `msgspec.Struct` whose fields are columns to read, and `key` the column, or the
    columns in a tuple, that tell rows apart. The table is neither made nor changed; views of the database do as well.
    """
    where = getattr(row, "__name__", repr(row))
    if not _is_frozen(row):
        raise DefinitionError(
            f"reference({name!r}, {where}): rows are given to several handlers, and {where} can be changed",
            remedy=f"Write @dataclass(frozen=True) above class {where}, or class {where}(msgspec.Struct, frozen=True)",
        )
    names = (key,) if isinstance(key, str) else key
    if not (_are_names(names) and len(set(names)) == len(names) <= MOST_COLUMNS):
        raise DefinitionError(
            f"reference({name!r}, key={key!r})",
            remedy=f'Name the column that tells rows apart, key="country", or up to {MOST_COLUMNS} in a tuple',
        )
    return Reference(row, Table(name, read_columns(where, fields_of(row), names), names))


@overload
def lookup(source: Reference[R], /, *, by: By) -> Lookup[R]: ...
@overload
def lookup(source: type[V], /, *, by: By = None) -> Lookup[V]: ...
def lookup(source: Any, /, *, by: By = None) -> Lookup[Any]:
    """Declare which of its rows handlers get: `taxes = lookup(reference(…), by="country")`.

    `source` is a table of others, or the class of another view of the set, `lookup(Customer, by="customer_id")`. `by`
    is a field of the event, a tuple of fields for a key of several columns, or a function of the event, or of event
    and envelope. It gives one key, several in a list, or None for none; of a view it may be left out, for the row of
    the event's own aggregate. A handler that names the lookup as a parameter behind `*` gets a mapping of its event's
    keys to rows: `def placed(self, event, *, taxes)`. A key without a row is not in it; asking for another key than the
    event's is an error. Rows of a table of others are those of now, also in a rebuild; those of a view are as of the
    event, with all that was applied before it.
    """
    called = getattr(source, "__name__", repr(source))
    if isinstance(source, type) and ATTRIBUTE in vars(source):
        if by is None:
            return Lookup(source, None, by_reads_envelope=False)
    elif not isinstance(source, Reference):
        raise DefinitionError(
            f"lookup({called}) is neither a reference nor a view",
            remedy='Write lookup(reference("public.tax_rates", TaxRate, key="country"), by="country"), of a read model '
            "by the name that readers use; or the class of another view of the same ViewSet; or join when reading",
        )
    shown = repr(source) if isinstance(source, Reference) else called
    where, cure = f"lookup({shown}, by=", 'by="field", a tuple of fields, or by=lambda event: …'
    if callable(by):
        reads = reads_envelope(f"{where}{getattr(by, '__name__', by)})", by, 1, cure)
        return Lookup(source, by, by_reads_envelope=reads)
    fields = (by,) if isinstance(by, str) else by
    if not _are_names(fields):
        raise DefinitionError(f"{where}{by!r})", remedy=f"Say which of its rows an event needs: {cure}")
    return Lookup(source, by, by_reads_envelope=False)


def lookups_of(cls: type) -> dict[str, Lookup[Any]]:
    """Return what a class and its bases declare, by name."""
    found: dict[str, Lookup[Any]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Lookup):
                found[name] = value
            else:
                found.pop(name, None)
    return found


def _are_names(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(one, str) for one in value)


def _is_frozen(row: Any) -> bool:
    if not isinstance(row, type):
        return False
    if is_dataclass(row):
        return bool(vars(row)["__dataclass_params__"].frozen)
    return issubclass(row, msgspec.Struct) and row.__struct_config__.frozen
