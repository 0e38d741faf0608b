"""One table as it is live and as it was built: what of it can be compared, and the statements that compare it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.digest import stand_in
from projectionist.core.identifiers import quoted
from projectionist.projections.tables.ddl import physical
from projectionist.runner.read_models.views import columns

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.projections.tables.table import Table
    from projectionist.runner.database.queries import Queries

Key = tuple[str, ...]
"""A row's key, as text: whatever its types are."""


class Difference(msgspec.Struct, frozen=True):
    """A row, and what of it differs; None where one side has no such row."""

    table: str
    key: str
    live: dict[str, Any] | None
    rebuilt: dict[str, Any] | None
    keyed: bool = True
    """False: the table has no key, and `key` is the row itself."""

    def __str__(self) -> str:
        """Return what may stand in a log: neither the row's key nor its values."""
        return f"{self.table} {stand_in(self.key)}: {self._columns()}"

    def told(self, *, values: bool) -> str:
        """Return it for an operator; a key is told, values are where they are revealed."""
        key = self.key if self.keyed or values else stand_in(self.key)
        return f"{self.table} {key}: {self._pairs() if values else self._columns()}"

    def _columns(self) -> str:
        if self.live is None or self.rebuilt is None:
            return "only rebuilt" if self.live is None else "only live"
        return ", ".join(self.live)

    def _pairs(self) -> str:
        if self.live is None or self.rebuilt is None:
            return self._columns()
        return ", ".join(f"{c} {self.live[c]!r} -> {self.rebuilt[c]!r}" for c in self.live)


class TablePair(msgspec.Struct, frozen=True):
    """The physical tables behind one name; `typed` where every column is of a type with an equality of its own.

    Otherwise values are compared as text, which every type has: json, xml and point have no equality.
    """

    name: str
    live: str
    built: str
    typed: bool
    types: dict[str, str]
    """The columns that both have in one type."""
    key: tuple[str, ...]
    """Of the primary key, where both have the same."""
    equals: tuple[str, ...]
    """The operator of each of them: of a type that an extension brings it lies in the extension's schema."""
    left_out: tuple[str, ...]
    """What cannot be compared."""

    @property
    def comparable(self) -> bool:
        """Return whether rows can be compared at all."""
        return bool(self.types) and not (set(self.key) - self.types.keys())

    def differing(self, *, chosen: bool = False) -> str:
        """Return rows that differ, by key; `chosen` ones alone, whose keys are its arguments, a column each."""
        sides = (self._chosen(self.live), self._chosen(self.built)) if chosen else (self.live, self.built)
        keys = [quoted(name) for name in self.key]
        on = " and ".join(f"l.{k} {equal} b.{k}" for k, equal in zip(keys, self.equals, strict=True))
        live, built = (self._values(side) for side in "lb")
        return (
            f"select array[{', '.join(f'coalesce(l.{k}, b.{k})::text' for k in keys)}] as key,\n"
            f"    {self._shown('l')} as live, {self._shown('b')} as built\n"
            f"from {sides[0]} l full join {sides[1]} b on {on}\n"
            f"where row({live}) is distinct from row({built})"
        )

    def whole(self) -> str:
        """Return rows that one side alone has, or has more often; for tables without a key. One snapshot holds both."""
        live, built = (f"select array[{self._values('t')}] as shown from {side} t" for side in self.tables)
        return (
            f"(select 'live' as side, shown from ({live} except all {built}) d limit $1)\n"
            f"union all (select 'built', shown from ({built} except all {live}) d limit $1)"
        )

    def texts(self) -> str:
        """Return keys of this table as text: an array a column."""
        columns = [(f"k{at}", self.types[name]) for at, name in enumerate(self.key, 1)]
        arrays = ", ".join(f"${at}::{kind}[]" for at, (_, kind) in enumerate(columns, 1))
        names = ", ".join(name for name, _ in columns)
        shown = ", ".join(f"{name}::text" for name, _ in columns)
        return f"select {shown} from unnest({arrays}) as u ({names})"

    @property
    def tables(self) -> tuple[str, str]:
        """Return both tables, quoted."""
        return self.live, self.built

    def difference(self, row: Row) -> Difference:
        """Return a row of `differing`, as it is told."""
        live, built = (self._read(row[side]) for side in ("live", "built"))
        if live is not None and built is not None:
            changed = [name for name in live if name in built and live[name] != built[name]]
            live, built = ({name: side[name] for name in changed} for side in (live, built))
        return Difference(self.name, ", ".join(row["key"]), live, built)

    def alone(self, side: str, row: Sequence[str | None]) -> Difference:
        """Return a row of `whole`, as it is told."""
        values, text = dict(zip(self.types, row, strict=True)), f"({', '.join(str(v) for v in row)})"
        live, built = (values, None) if side == "live" else (None, values)
        return Difference(self.name, text, live, built, keyed=False)

    def _values(self, side: str) -> str:
        cast = "" if self.typed else "::text"
        return ", ".join(f"{side}.{quoted(name)}{cast}" for name in self.types)

    def _shown(self, side: str) -> str:
        if self.typed:
            return f"to_jsonb({side}.*)::text"
        return f"case when {side}.{quoted(self.key[0])} is not null then array[{self._values(side)}] end"

    def _read(self, shown: Any) -> dict[str, Any] | None:
        if shown is None or not self.typed:
            return None if shown is None else dict(zip(self.types, shown, strict=True))
        found: dict[str, Any] = msgspec.json.decode(shown)
        return found

    def _chosen(self, side: str) -> str:
        """Return those of the chosen keys, found by the index of the primary key."""
        arguments = ", ".join(f"${at}::text[]" for at, _ in enumerate(self.key, 1))
        wanted = ", ".join(f"k{at}" for at, _ in enumerate(self.key))
        cast = ", ".join(f"k{at}::{self.types[name]} as k{at}" for at, name in enumerate(self.key))
        pairs = enumerate(zip(self.key, self.equals, strict=True))
        on = " and ".join(f"t.{quoted(name)} {equal} w.k{at}" for at, (name, equal) in pairs)
        return (
            f"(select t.* from (select distinct {cast} from unnest({arguments}) as u ({wanted})) w\n"
            f"    join {side} t on {on})"
        )


async def sides_of(queries: Queries, table: Table, generations: tuple[int, int], *, typed: bool) -> TablePair:
    """Return what both generations, the live one and the built, have of one table."""
    live, built = [
        {c.name: c.sql_type for c in await columns(queries, queries.schema, table.physical(generation))}
        for generation in generations
    ]
    before, after = (physical(table, queries.schema, generation) for generation in generations)
    found = [await queries.rows("select_primary_key", one) for one in (before, after)]
    keys = [[row["name"] for row in rows] for rows in found]
    types = {column: sql_type for column, sql_type in built.items() if live.get(column) == sql_type}
    left_out = sorted((live.keys() | built.keys()) - types.keys())
    if not live:
        left_out = [f"all rows of {table.name}: live has no such table"]
    elif keys[0] != keys[1]:
        types, left_out = {}, [*left_out, f"all rows of {table.name}: their key is another one"]
    return TablePair(
        name=table.name,
        live=before,
        built=after,
        typed=typed,
        types=types,
        key=tuple(keys[1]),
        equals=tuple(row["equals"] for row in found[1]),
        left_out=tuple(left_out),
    )
