"""Compares the shadow with the live generation, row by row, while both move; what differs, again at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.identifiers import quoted
from projectionist.core.signals import announce
from projectionist.projections.ddl import physical
from projectionist.runner.course import CONTIGUOUS
from projectionist.runner.rebuild.desk import RebuildError
from projectionist.runner.rebuild.names import columns

if TYPE_CHECKING:
    from projectionist.core.db import Row
    from projectionist.projections.definition import Definition
    from projectionist.projections.table import Table
    from projectionist.runner.rebuild.desk import Build, Desk

MOST = 1_000
"""How many differing rows are looked at again; beyond, the generations simply differ."""
SHOWN = 20


class Difference(msgspec.Struct, frozen=True):
    """A row, and what of it differs; None where one side has no such row."""

    table: str
    key: str
    live: dict[str, Any] | None
    rebuilt: dict[str, Any] | None

    def __str__(self) -> str:
        if self.live is None or self.rebuilt is None:
            return f"{self.table} {self.key}: {'only rebuilt' if self.live is None else 'only live'}"
        pairs = ", ".join(f"{c} {self.live[c]!r} -> {self.rebuilt[c]!r}" for c in self.live)
        return f"{self.table} {self.key}: {pairs}"


class Compared(msgspec.Struct):
    """What a comparison came to."""

    rows: int
    differences: list[Difference]
    more: bool
    """Whether there are more differences than are listed."""
    expected: bool
    """Whether differences are no surprise: other code made the live rows, or events were applied in no fixed order."""
    left_out: list[str]
    """Columns that only one side has, or in another type: not compared."""


class Differs(RebuildError):
    """The same code makes other rows than the live ones: one of them is wrong, and a person has to say which."""

    def __init__(self, compared: Compared) -> None:
        shown = "; ".join(map(str, compared.differences[:SHOWN]))
        super().__init__(
            f"{'more than ' if compared.more else ''}{len(compared.differences)} rows differ from the live "
            f"generation, although the same code made both: {shown}",
            remedy="Rebuild again with --accept-differences to take the rebuilt ones, or --abort to keep the live",
        )
        self.compared = compared


class Comparison:
    """One comparison of a build with the live generation."""

    def __init__(
        self,
        desk: Desk,
        build: Build,
        definition: Definition,
        control: Row,
        live_code: bytes,
        *,
        accept: bool,
    ) -> None:
        self._desk = desk
        self._build = build
        self._definition = definition
        self._live = int(control["generation"])
        self._accept = accept
        made_by = (build.code, build.shape, build.revision)
        same = made_by == (control["code"], control["shape"], control["revision"])
        self._suspects: list[Any] = []
        self._differing_sql: dict[tuple[str, str, str], Difference] = {}
        in_order = definition.sequence == CONTIGUOUS
        self.result = Compared(
            0, [], more=False, expected=not (same and in_order and live_code == build.code), left_out=[]
        )

    async def look(self) -> None:
        """Compare everything, without a lock: rows that are being moved differ for a moment."""
        table = self._definition.table
        if table is None:
            self._differing_sql = await self._look_sql()
            return
        names, self.result.left_out = await self._common()
        if table.key is None or table.key.name not in names:
            return
        statement = _differing(self._sides(table), names, self._key) + f" limit {MOST + 1}"
        rows = await self._desk.connection.fetch(statement)
        self._suspects = [row["key"] for row in rows]
        self.result.rows = await self._desk.connection.fetchval(
            f"select count(*) from {self._sides(table)[1]}"
        )
        announce("rebuild.compared")

    async def confirm(self) -> None:
        """Look again without a lock, after catching up: what still differs in a SqlProjection is no row in motion."""
        if self._definition.table is None:
            before, now = self._differing_sql, await self._look_sql()
            self._differing_sql = {one: found for one, found in now.items() if one in before}

    async def settle(self) -> None:
        """Look again at what differed, under the barrier, where nothing moves. Raises Differs."""
        table = self._definition.table
        if table is None:
            self.result.differences = [*self._differing_sql.values()][:SHOWN]
            self.result.more = len(self._differing_sql) > SHOWN
        elif self._suspects:
            names, _ = await self._common()
            live, shadow = self._sides(table)
            chosen = f"(select * from {{}} where {self._key} = any($1))"
            sides = chosen.format(live), chosen.format(shadow)
            rows = await self._desk.connection.fetch(
                _differing(sides, names, self._key), self._suspects[:MOST]
            )
            self.result.differences = [_difference(table.name, row) for row in rows]
            self.result.more = len(self._suspects) > MOST
        if self.result.differences and not (self.result.expected or self._accept):
            raise Differs(self.result)

    async def _look_sql(self) -> dict[tuple[str, str, str], Difference]:
        """Rows that only one side has, by table, side and text; no more than a few hundred of each."""
        found: dict[tuple[str, str, str], Difference] = {}
        for table in self._definition.owned:
            name, (live, shadow) = table.public, self._sides(table)
            for one, other, side in ((live, shadow, "live"), (shadow, live, "rebuilt")):
                rows = await self._desk.connection.fetch(
                    f"select to_jsonb(d)::text as row from (table {one} except all table {other}) d"
                    f" order by 1 limit {MOST}"
                )
                for row in rows:
                    values = msgspec.json.decode(row["row"])
                    pair = (values, None) if side == "live" else (None, values)
                    found[name, side, row["row"]] = Difference(name, row["row"], *pair)
        return found

    @property
    def _key(self) -> str:
        table = self._definition.table
        assert table is not None
        assert table.key is not None
        return quoted(table.key.name)

    def _sides(self, table: Table) -> tuple[str, str]:
        schema = self._desk.schema
        return physical(table, schema, self._live), physical(table, schema, self._build.generation)

    async def _common(self) -> tuple[list[str], list[str]]:
        """Columns that both sides have in the same type, and those they have not."""
        table = self._definition.table
        assert table is not None
        live, fresh = (
            await self._types(table, self._live),
            await self._types(table, self._build.generation),
        )
        both = [name for name, sql_type in fresh.items() if live.get(name) == sql_type]
        return both, sorted((live.keys() | fresh.keys()) - set(both))

    async def _types(self, table: Table, generation: int) -> dict[str, str]:
        found = await columns(self._desk, self._desk.schema, table.physical(generation))
        return {column.name: column.sql_type for column in found}


def _differing(sides: tuple[str, str], names: list[str], key: str) -> str:
    live, shadow = (", ".join(f"{side}.{quoted(name)}" for name in names) for side in ("l", "s"))
    return (
        f"select coalesce(l.{key}, s.{key}) as key, to_jsonb(l)::text as live, to_jsonb(s)::text as shadow\n"
        f"from {sides[0]} l full join {sides[1]} s on l.{key} = s.{key}\n"
        f"where row({live}) is distinct from row({shadow})"
    )


def _difference(table: str, row: Row) -> Difference:
    live, shadow = (
        None if row[side] is None else msgspec.json.decode(row[side]) for side in ("live", "shadow")
    )
    if live is not None and shadow is not None:
        changed = [name for name in live if name in shadow and live[name] != shadow[name]]
        live, shadow = ({name: side[name] for name in changed} for side in (live, shadow))
    return Difference(table, str(row["key"]), live, shadow)
