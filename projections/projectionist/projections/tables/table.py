"""The table a projection owns: its columns, its indexes, and every name derived from it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from projectionist.core.errors import DefinitionError
from projectionist.core.identifiers import checked, quoted
from projectionist.projections.tables.columns import Column
from projectionist.projections.tables.table_key import TableKey

PUBLIC = "public"
MOST_GENERATIONS = 9999
"""Names are checked with the longest suffix they may ever carry."""


class Index:
    """An index of the read model: `Index("customer")`, `Index("(lower(email))", name="email", unique=True)`.

    What begins with a parenthesis is SQL as `create index` takes it, an expression with or without an operator class;
    such an index needs a `name`, which otherwise shortens the derived one. `where` makes it partial, `using` names
    another method than btree. A row that a unique one refuses fails its event, which is parked.
    """

    __slots__ = ("columns", "name", "unique", "using", "where")

    def __init__(
        self, *columns: str, name: str = "", unique: bool = False, where: str = "", using: str = "btree"
    ) -> None:
        _check_index(columns, name, unique=unique, using=using)
        self.columns = columns
        self.name = name or "_".join(columns)
        self.unique = unique
        self.where = where.strip()
        self.using = using

    def __repr__(self) -> str:
        return f"Index({', '.join(map(repr, self.columns))})"

    @property
    def plain(self) -> tuple[str, ...]:
        """Return those of its columns that are fields."""
        return tuple(column for column in self.columns if not column.startswith("("))

    @property
    def has_sql(self) -> bool:
        """Return whether it holds SQL of the user's, where names may stand without a schema."""
        return bool(self.where) or len(self.plain) < len(self.columns)

    @property
    def declared(self) -> str:
        """Return what `create index` says of it but its name: two that are equal here are the same index."""
        listed = ", ".join(
            column if column.startswith("(") else quoted(column, what="column") for column in self.columns
        )
        method = "" if self.using == "btree" else f"using {quoted(self.using, what='method of an index')} "
        return f"{method}({listed})" + (f" where {self.where}" if self.where else "")


class Table:
    """A read model's table: the user's view, the generations behind it, and the columns."""

    __slots__ = ("columns", "indexes", "key", "name", "schema")

    def __init__(
        self,
        name: str,
        columns: Sequence[Column] = (),
        key: Sequence[str] = (),
        indexes: Sequence[Index] = (),
    ) -> None:
        self.schema, self.name = split(name)
        self.columns = tuple(columns)
        self.indexes = tuple(indexes)
        self.key = TableKey(self.columns, key) if columns else None
        _check(self)

    def __repr__(self) -> str:
        return f"Table({self.public})"

    @property
    def public(self) -> str:
        """Return the name users see, with its schema: a consumer's own name."""
        return f"{self.schema}.{self.name}"

    def physical(self, generation: int) -> str:
        """Return the name of one generation's table, in our schema: no two public names have it in common.

        A dot stands in names outside `public`, and a public name has none of its own.
        """
        return f"{self.stem}__g{generation}"

    @property
    def stem(self) -> str:
        """Return the common beginning of all its generations' names."""
        return self.name if self.schema == PUBLIC else self.public

    def index_name(self, index: Index, generation: int) -> str:
        """Return the name of one index of one generation."""
        return f"{self.physical(generation)}_{index.name}"

    def key_name(self, generation: int) -> str:
        """Return the name of one generation's primary key."""
        return f"{self.physical(generation)}_pkey"


def _check_index(columns: tuple[str, ...], name: str, *, unique: bool, using: str) -> None:
    if not columns:
        raise DefinitionError("Index() names no column", remedy='Write Index("customer")')
    if not name and any(column.startswith("(") for column in columns):
        raise DefinitionError(
            f"Index({columns[0]!r}) has an expression and no name",
            remedy='Write Index("(lower(email))", name="email")',
        )
    if unique and using != "btree":
        raise DefinitionError(
            f"Index({columns[0]!r}) is unique, which an index using {using} cannot be",
            remedy="Leave using= or unique= out",
        )


def split(name: str) -> tuple[str, str]:
    """Split `schema.table` into its two names; the schema is `public` where none is given."""
    schema, dot, bare = name.rpartition(".")
    return (schema, bare) if dot else (PUBLIC, name)


def _check(table: Table) -> None:
    checked(table.schema, what="schema")
    if "." in table.schema or re.search(r"__g\d+$", table.name):
        raise DefinitionError(
            f"table={table.public!r} cannot be used",
            remedy="Write table or schema.table; a name ending in __g and digits is a generation's",
        )
    checked(table.name, what="table")
    checked(table.stem, what="table", suffix=f"__g{MOST_GENERATIONS}_pkey")
    known = {column.name for column in table.columns}
    names = {table.key_name(MOST_GENERATIONS)}
    for index in table.indexes:
        if known and not known.issuperset(index.plain):
            raise DefinitionError(
                f"{index!r} names no column of {table.name}", remedy=f"Known: {sorted(known)}"
            )
        name = table.index_name(index, MOST_GENERATIONS)
        checked(name, what=f'index of {table.name} (Index(…, name="short") shortens it)')
        if name in names:
            raise DefinitionError(
                f"{index!r} gets the name of another", remedy='Write Index(…, name="another")'
            )
        names.add(name)
