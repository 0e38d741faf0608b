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
    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.handlers import Model


def model_for(
    connection: Connection,
    consumer: Consumer,
    schema: str,
    times: BatchTimes = USUAL,
    *,
    lookups: LookupReader | None = None,
) -> Model:
    """Return the model of the live generations of a consumer's views on this connection; a build, which is of one view,
    has lookups of its own."""
    if consumer.definition.kind is Kind.SQL:
        return SqlHandlers(connection, consumer, schema, times.handler_idle_s)
    tables = {
        view.number: RowTable(connection, view, schema) for view in consumer.members if view.definition.table
    }
    readers = {
        view.number: LookupReader(connection, view.definition) if lookups is None else lookups
        for view in consumer.members
        if view.definition.references
    }
    return PureHandlers(consumer, tables, readers)
