"""What is being built: a generation of each view, and the same handlers as live, writing rows and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import asyncpg

from projectionist.core.states import Cause
from projectionist.projections.tables import ddl
from projectionist.runner.batch.handler_factory import model_for
from projectionist.runner.batch.lookup_reader import LookupReader
from projectionist.runner.batch.planning import AggregatePlan
from projectionist.runner.batch.wanted_rows import TooManyRows
from projectionist.runner.history.handler_failures import HandlersFailed, handler_failure
from projectionist.runner.read_models.indexes import refusals

if TYPE_CHECKING:
    from collections import Counter

    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.view import View
    from projectionist.runner.decoding.delivery import Delivery


class ShadowView:
    """The tables of one view's generation."""

    def __init__(self, connection: Connection, view: View, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self.number = view.number
        self.definition = view.definition
        self.generation = view.generation

    def create(self) -> list[str]:
        """Return the statements that make the tables; a table of rows gets key and indexes only when it is filled."""
        d, schema, generation = self.definition, self._schema, self.generation
        marks = [ddl.mark(table, schema, generation) for table in d.owned]
        if d.table is not None:
            return [ddl.create_table(d.table, schema, generation, keyed=False), *marks]
        made = [ddl.create_sql_table(d.tables, name, schema, generation) for name in d.tables]
        # Its handlers look rows up by them, and name them in `on conflict`.
        return [
            *made,
            *marks,
            *(text for table in d.owned for text in ddl.create_indexes(table, schema, generation)),
        ]

    def index(self) -> list[str]:
        """Return the statements that make keys and indexes, and count what is there for the planner."""
        d, schema, generation = self.definition, self._schema, self.generation
        made: list[str] = []
        if d.table is not None:
            made = [
                ddl.create_key(d.table, schema, generation),
                *ddl.create_indexes(d.table, schema, generation),
            ]
        return [*made, *(f"analyze {ddl.physical(table, schema, generation)}" for table in d.owned)]

    def bare_names(self) -> list[str]:
        """Return the tables' names in our schema, without quotes."""
        return [table.physical(self.generation) for table in self.definition.owned]

    async def copy(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Put rows into the empty table; a Reactor has none."""
        table = self.definition.table
        if table is None:
            return
        await self._connection.copy_records_to_table(
            table.physical(self.generation),
            schema_name=self._schema,
            columns=[column.name for column in table.columns],
            records=rows,
        )


class Shadow:
    """What is built for a consumer. `consumer` is a Consumer of its own, whose views' generations are the shadow's."""

    def __init__(self, connection: Connection, consumer: Consumer, schema: str) -> None:
        self._connection = connection
        self.definition = consumer.definition
        self.start = consumer.start
        self.views = tuple(ShadowView(connection, view, schema) for view in consumer.views)
        self.lookups = {
            view.number: LookupReader(connection, view.definition, keeps=True) for view in consumer.views
        }
        self._model = model_for(connection, consumer, schema, lookups=self.lookups)
        tables = [table for view in self.views for table in view.definition.owned]
        self._unique = any(index.unique for table in tables for index in table.indexes)
        self._moved: dict[int, set[Any]] = {}
        """Keys of rows that were written, by view, once they are asked for."""

    def moved_since(self) -> dict[int, set[Any]]:
        """Return the keys of rows that were written since this was last asked, by view; from now on they are noted."""
        moved, self._moved = self._moved, {view.number: set() for view in self.views}
        return moved

    async def apply(self, deliveries: Sequence[Delivery], silent: Counter[str]) -> None:
        """Fold these events in their order, inside the caller's transaction; `silent` counts intents not made.

        Raises HandlersFailed where a handler fails.
        """
        if not deliveries:
            return
        if not self._unique:
            await self._apply(deliveries, silent)
            return
        try:
            async with self._connection.transaction():
                await self._apply(deliveries, silent)
        except asyncpg.UniqueViolationError:
            with refusals(self.definition):
                await self._apply_in_turn(deliveries, silent)

    async def _apply_in_turn(self, deliveries: Sequence[Delivery], silent: Counter[str]) -> None:
        """Fold one by one, each when nobody else has its unique value any more: it passed from one row to another.

        What live had parked until the value was free stands before what freed it.
        """
        while deliveries:
            left: list[Delivery] = []
            refused: asyncpg.UniqueViolationError | None = None
            for delivery in deliveries:
                if delivery.aggregate is not None and delivery.aggregate in {one.aggregate for one in left}:
                    left.append(delivery)
                    continue
                try:
                    async with self._connection.transaction():
                        await self._apply([delivery], silent)
                except asyncpg.UniqueViolationError as error:
                    left.append(delivery)
                    refused = error
            if refused is not None and len(left) == len(deliveries):
                raise refused
            deliveries = left

    async def _apply(self, deliveries: Sequence[Delivery], silent: Counter[str]) -> None:
        try:
            folded = await self._model.fold([_one_after_another(deliveries)], None)
        except TooManyRows:
            half = len(deliveries) // 2
            await self._apply(deliveries[:half], silent)
            await self._apply(deliveries[half:], silent)
            return
        for broken in folded.broken.values():
            failed = broken.failed
            raise HandlersFailed(
                [handler_failure(deliveries[broken.at], (failed.error_class or "", failed.error or ""))]
            )
        await self._model.write(folded)
        for number, moved in self._moved.items():
            if number in folded.rows:
                moved.update(folded.rows[number].rows)
        silent.update(emitted.counted for _, emitted, _ in folded.intents)


def _one_after_another(deliveries: Sequence[Delivery]) -> AggregatePlan:
    return AggregatePlan(
        position=None,
        tried=list(deliveries),
        held=[],
        stale=[],
        clashes=[],
        more=False,
        due=False,
        cause=Cause.FAILED,
    )
