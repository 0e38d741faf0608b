"""Which model runs which kind of consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.projections.compiled.definition import Kind
from projectionist.runner.batch.handlers import PureHandlers
from projectionist.runner.batch.lookup_reader import LookupReader
from projectionist.runner.batch.row_table import RowTable
from projectionist.runner.batch.sql_handlers import SqlHandlers
from projectionist.runner.batch.times import USUAL, BatchTimes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.handlers import Model


def model_for(
    connection: Connection,
    consumer: Consumer,
    schema: str,
    times: BatchTimes = USUAL,
    *,
    lookups: Mapping[int, LookupReader] | None = None,
) -> Model:
    """Return the model of the generations of a consumer's views on this connection; a build has lookups of its own, by
    the numbers of its views."""
    if consumer.definition.kind is Kind.SQL:
        return SqlHandlers(connection, consumer, schema, times.handler_idle_s)
    tables = {
        view.number: RowTable(connection, view, schema) for view in consumer.members if view.definition.table
    }
    of_view = {view.definition: tables[view.number] for view in consumer.members if view.number in tables}
    readers: dict[int, LookupReader] = {}
    for view in consumer.members:
        definition = view.definition
        if definition.references or definition.looks_up:
            reader = LookupReader(connection, definition) if lookups is None else lookups[view.number]
            reader.views = {one.source: of_view[one] for one in definition.looks_up if one in of_view}
            readers[view.number] = reader
    return PureHandlers(consumer, tables, readers)
