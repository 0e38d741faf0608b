"""The state of the outbox as metrics: read from the database by the process that observes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.postgres.statements import Statements
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.outbox.admin.status import MOST

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection, Row
    from projectionist.core.telemetry.metrics import Shown


class OutboxMetrics:
    """Reads the state of the outbox, and sets its gauges."""

    def __init__(self, schema: str) -> None:
        self._sql = Statements("projectionist.outbox", schema)

    async def look(self, connection: Connection) -> None:
        """Read once."""
        rows = await connection.fetch(self._sql["select_outbox_metrics"], MOST)
        circuits = await connection.fetch(self._sql["select_circuit_metrics"])
        relays = await connection.fetch(self._sql["count_relays_by_provider"])
        waiting = await connection.fetch(self._sql["select_schedule_metrics"], MOST)
        nothing: Shown = [(0.0, {})]
        metrics.show(instruments.INTENTS, [(row["n"], _of(row)) for row in rows] or nothing)
        ages = [(max(0.0, row["oldest_s"]), _of(row)) for row in rows]
        metrics.show(instruments.INTENTS_AGE, ages or nothing)
        metrics.show(instruments.SCHEDULED, [(row["n"], _why(row)) for row in waiting] or nothing)
        late = [(row["late_s"], _why(row)) for row in waiting if row["late_s"] > 0]
        metrics.show(instruments.SCHEDULED_LATE, late or nothing)
        served = [(row["n"], {names.PROVIDER: row["provider"]}) for row in relays]
        metrics.show(instruments.RELAYS, served or nothing)
        metrics.show(instruments.CIRCUITS, [(row["n"], _of(row)) for row in circuits] or nothing)


def _why(row: Row) -> dict[str, str]:
    why = {names.REASON: row["waits_for"]}
    return why if row["consumer"] is None else why | {names.CONSUMER: row["consumer"]}


def _of(row: Row) -> dict[str, str]:
    state = {names.STATE: row["state"]}
    return state if row["provider"] is None else state | {names.PROVIDER: row["provider"]}
