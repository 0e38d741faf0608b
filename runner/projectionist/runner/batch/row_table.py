"""The live generation of a read model on one connection: rows read by key, written set-based."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from projectionist.core.postgres.statements import Statements
from projectionist.projections.tables.row_statements import ReadModel

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.batch.view import View
    from projectionist.runner.batch.wanted_rows import WantedRows

Row = tuple[Any, ...]


class RowTable:
    """Rows are tuples in database form. The caller is inside a batch transaction that holds the positions."""

    def __init__(self, connection: Connection, view: View, schema: str) -> None:
        definition = view.definition
        if definition.table is None:
            raise ValueError(f"{definition.name} has no table of rows")
        self._connection = connection
        self._view = view
        self._schema = schema
        self._own_type = Statements("projectionist.runner", schema)["set_row_key_aggregate_type"]
        self._table = definition.table
        self._generation = -1
        self._follow()
        self._own = (
            all(handler.own for handler in definition.handlers.values())
            and definition.sequence != "unordered"
        )
        """Whether every row belongs to one aggregate, whose position lock covers it."""

    def _follow(self) -> None:
        """Go on with the generation that is live in this batch: a swap may have come between it and the last."""
        if self._generation != self._view.generation:
            self._generation = self._view.generation
            self._statements = ReadModel(self._table, self._schema, self._generation)

    @property
    def usual(self) -> tuple[str, ...]:
        """Return the statements of a batch that deletes nothing."""
        self._follow()
        of = self._statements
        return (of.load, of.upsert) if self._own else (of.load_locked, of.insert_absent, of.upsert)

    async def load(self, wanted: WantedRows) -> dict[Any, Row]:
        """Return the rows that are asked for; shared ones are locked, in the order of their keys."""
        self._follow()
        statements, key = self._statements, self._statements.key
        if wanted.prefixes:
            statement = statements.below if self._own else statements.below_locked
        else:
            statement = statements.load if self._own else statements.load_locked
        found = await self._connection.fetch(statement, *key.arrays(wanted.keys, wanted.prefixes))
        return {key.of(row): row for record in found if (row := tuple(record))}

    async def look_up(self, keys: Sequence[Any]) -> list[Row]:
        """Return the rows of these keys that are there, without a lock."""
        self._follow()
        found = await self._connection.fetch(self._statements.load, *self._statements.key.arrays(keys))
        return [tuple(record) for record in found]

    async def own_type(self, kind: str, since: str) -> str:
        """Return the type of aggregate whose ids are keys of these rows: the first that ever came, `kind` if none
        has."""
        return str(await self._connection.fetchval(self._own_type, self._view.number, kind, since))

    async def write(self, rows: Mapping[Any, Row | None], present: AbstractSet[Any]) -> bool:
        """Write rows, None for one to delete; False if a shared row that was absent is there by now: roll back."""
        kept = [(key, row) for key in sorted(rows) if (row := rows[key]) is not None]
        gone = [key for key, row in rows.items() if row is None and key in present]
        fresh = [] if self._own else [row for key, row in kept if key not in present]
        known = [row for key, row in kept if self._own or key in present]
        if fresh:
            got = await self._connection.fetch(
                self._statements.insert_absent, *self._statements.arguments(fresh)
            )
            if len(got) != len(fresh):
                return False
        if known:
            await self._connection.execute(self._statements.upsert, *self._statements.arguments(known))
        if gone:
            await self._connection.execute(self._statements.delete, *self._statements.key.arrays(gone))
        return True
