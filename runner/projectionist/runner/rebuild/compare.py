"""Compares the shadow with the live generation, row by row, while both move; what differs, again at rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.testpoints import announce
from projectionist.projections.tables.ddl import physical
from projectionist.runner.batch.planning import CONTIGUOUS
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.rebuild.table_pairs import Difference, Key, TablePair, sides_of

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.database.queries import BuildView, Queries

MOST = 1_000
"""How many differing rows are looked at again; beyond, the generations simply differ."""
SHOWN = 20


class Compared(msgspec.Struct):
    """The result of a comparison."""

    rows: int
    """How many were built, compared or not."""
    differences: list[Difference]
    more: bool
    """Whether there are more differences than are listed."""
    expected: bool
    """Whether differences are no surprise: other code made the live rows, events were applied in no fixed order, or
    handlers look up tables that others change."""
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
    """One comparison of what is built of a view with the live generation."""

    def __init__(
        self,
        queries: Queries,
        built: BuildView,
        definition: Definition,
        *,
        accept: bool,
    ) -> None:
        self._queries = queries
        self.built = built
        self._definition = definition
        self._accept = accept
        self._tables: list[TablePair] = []
        self._suspects: dict[str, set[Key]] = {}
        """Keys of rows that differed while both sides moved, by table."""
        self._alone: Counter[tuple[str, str, tuple[str | None, ...]]] = Counter()
        """Rows without a key that one side alone had: table, side, row."""
        in_order = definition.sequence == CONTIGUOUS
        expected = not (built.is_same_code and in_order) or not definition.is_exact
        self._live = None if built.joins else built.live
        """What it is compared with: nothing, where batches have not written the view beside the others."""
        self.result = Compared(0, [], more=False, expected=expected, left_out=[])

    async def look(self) -> None:
        """Compare everything, without a lock: rows that are being moved differ for a moment."""
        found = await self._sides()
        self._tables = [sides for sides in found if sides.comparable]
        for table in self._definition.owned:
            built = physical(table, self._queries.schema, self.built.generation)
            self.result.rows += await self._queries.connection.fetchval(f"select count(*) from {built}")
        for sides in self._tables:
            if sides.key:
                rows = await self._queries.connection.fetch(f"{sides.differing()} limit {MOST + 1}")
                self._suspects[sides.name] = {tuple(row["key"]) for row in rows}
        self._alone = await self._look_alone()
        announce("rebuild.compared")

    @property
    def needs_again(self) -> bool:
        """Return whether rows without a key differed, of which only a second look tells whether they were in motion."""
        return bool(self._alone)

    async def again(self) -> None:
        """Look again at rows without a key, after catching up: those that differ still are not in motion."""
        self._alone &= await self._look_alone()

    async def confirm(self, moved: Collection[Any]) -> None:
        """Compare rows that have moved since the look, without a lock: what is equal is looked at no more."""
        for sides in self._tables:
            if moved and (texts := await self._texts(sides, moved)):
                found = await self._differing(sides, texts)
                self._suspects[sides.name] |= {tuple(row["key"]) for row in found}

    async def settle(self, moved: Collection[Any]) -> None:
        """Look again at what differed, and at rows that have moved since, under the barrier. Raises Differs."""
        result = self.result
        for sides in self._tables:
            suspects = self._suspects.get(sides.name, set())
            if moved:
                suspects = suspects | await self._texts(sides, moved)
            found = await self._differing(sides, suspects)
            result.differences += [sides.difference(row) for row in found]
            result.more |= len(self._suspects.get(sides.name, ())) > MOST
            mine = [one for one in self._alone.elements() if one[0] == sides.name]
            result.differences += [sides.alone(side, row) for _, side, row in mine[:SHOWN]]
            result.more |= len(mine) > SHOWN
        if result.differences and not (result.expected or self._accept):
            raise Differs(result)

    async def _differing(self, sides: TablePair, keys: AbstractSet[Key]) -> Sequence[Row]:
        """Return those of these rows that differ; found by key, whatever the size of the tables."""
        if not keys:
            return []
        columns = list(zip(*sorted(keys), strict=True))
        return await self._queries.connection.fetch(sides.differing(chosen=True), *columns)

    async def _texts(self, sides: TablePair, moved: Collection[Any]) -> set[Key]:
        table = self._definition.table
        if table is None or table.key is None:
            return set()
        return set(map(tuple, await self._queries.connection.fetch(sides.texts(), *table.key.arrays(moved))))

    async def _look_alone(self) -> Counter[tuple[str, str, tuple[str | None, ...]]]:
        found: Counter[tuple[str, str, tuple[str | None, ...]]] = Counter()
        for sides in self._tables:
            if not sides.key:
                rows = await self._queries.connection.fetch(sides.whole(), MOST)
                found.update((sides.name, row["side"], tuple(row["shown"])) for row in rows)
        return found

    async def _sides(self) -> list[TablePair]:
        """Return both sides of every table that both generations have."""
        if self._live is None:
            return []
        both, typed = (self._live, self.built.generation), self._definition.table is not None
        found = [await sides_of(self._queries, table, both, typed=typed) for table in self._definition.owned]
        self.result.left_out = sorted(column for sides in found for column in sides.left_out)
        return found
