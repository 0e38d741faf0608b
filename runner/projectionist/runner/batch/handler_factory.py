"""Which model runs which kind of consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.projections.compiled.definition import Kind
from projectionist.runner.batch.handlers import PureHandlers
from projectionist.runner.batch.row_table import RowTable
from projectionist.runner.batch.sql_handlers import SqlHandlers
from projectionist.runner.batch.times import USUAL, BatchTimes

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.handlers import Model


def model_for(connection: Connection, consumer: Consumer, schema: str, times: BatchTimes = USUAL) -> Model:
    """Return the model of a consumer's live generation on this connection."""
    definition = consumer.definition
    match definition.kind:
        case Kind.SQL:
            return SqlHandlers(connection, consumer, schema, times.handler_idle_s)
        case Kind.REACTOR:
            return PureHandlers(consumer, None)
        case _:
            return PureHandlers(consumer, RowTable(connection, consumer.view, schema))
