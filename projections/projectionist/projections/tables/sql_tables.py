"""Tables of a SqlProjection: their names appear in SQL as placeholders, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from projectionist.core.errors import DefinitionError
from projectionist.projections.tables.table import Index, Table, split

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Tx(Protocol):
    """The open transaction, as an async handler sees it: `{name}` in `sql` stands for a declared table.

    Parameters are `$1`, `$2`…; rows come back as mappings. An error undoes this event and is its failure.
    """

    async def execute(self, sql: str, *args: Any) -> str:
        """Run a statement; returns its command tag. Whose tag nobody reads may run later, with others of its text."""

    async def executemany(self, sql: str, args: Any) -> None:
        """Run a statement for each sequence of arguments."""

    async def fetch(self, sql: str, *args: Any) -> list[Mapping[str, Any]]:
        """Return all rows."""

    async def fetchrow(self, sql: str, *args: Any) -> Mapping[str, Any] | None:
        """Return the first row, if there is one."""

    async def fetchval(self, sql: str, *args: Any) -> Any:
        """Return the first column of the first row."""


def resolved(sql: str, names: Mapping[str, str]) -> str:
    """Replace each `{name}` in `sql` by the quoted name in `names`.

    Braces around anything but one plain name are left alone. Raises LookupError for a table not declared.
    """

    def place(found: re.Match[str]) -> str:
        try:
            return names[found[1]]
        except KeyError:
            known = ", ".join(f"{{{name}}}" for name in names)
            raise LookupError(
                f"no table {found[0]} is declared (known: {known}); pass texts with braces as $ parameters"
            ) from None

    return _PLACEHOLDER.sub(place, sql)


def checked_tables(where: str, tables: Mapping[str, str]) -> dict[str, str]:
    """Return the declared tables, in order. Raises DefinitionError."""
    if not tables:
        raise DefinitionError(
            f"{where} declares no table",
            remedy='Write tables = {"order_totals": "order_id text primary key, cents bigint not null"}',
        )
    known: dict[str, str] = {}
    for name, body in tables.items():
        bare = Table(name).name
        if not _PLACEHOLDER.fullmatch(f"{{{bare}}}") or bare in known:
            raise DefinitionError(
                f"{where}: {name!r} cannot be a placeholder",
                remedy="Use letters, digits and _, each name once",
            )
        known[bare] = ""
        try:
            resolved(body, known)
        except LookupError as error:
            raise DefinitionError(f"{where}.tables[{name!r}]: {error}", remedy="Declare it before") from None
    return {name: body.strip() for name, body in tables.items()}


def check_indexed(where: str, tables: Iterable[str], indexes: Mapping[str, Sequence[Index]]) -> None:
    """Refuse indexes of a table that is not declared, and names that cannot be. Raises DefinitionError."""
    for name, wanted in indexes.items():
        if name not in tables:
            raise DefinitionError(
                f"{where}: indexes={{{name!r}: …}} names no table of it", remedy=f"Known: {sorted(tables)}"
            )
        Table(name, indexes=wanted)


def bare_names(tables: Iterable[str]) -> tuple[str, ...]:
    """Return the names as placeholders use them, without schema."""
    return tuple(split(name)[1] for name in tables)
