"""What users write: events in, rows and intents out. Nothing here knows a broker or a database driver."""

from __future__ import annotations

from projectionist.projections.bad_value import BadValue
from projectionist.projections.definition import Definition, Kind, check_distinct, definition
from projectionist.projections.envelope import Envelope
from projectionist.projections.event import Event, EventError, upcast
from projectionist.projections.handlers import absent, on
from projectionist.projections.kinds import Projection, Reactor, SqlProjection
from projectionist.projections.outcome import Delete, Refuse, Retry
from projectionist.projections.sql_tables import Tx
from projectionist.projections.table import Index

__all__ = [
    "BadValue",
    "Definition",
    "Delete",
    "Envelope",
    "Event",
    "EventError",
    "Index",
    "Kind",
    "Projection",
    "Reactor",
    "Refuse",
    "Retry",
    "SqlProjection",
    "Tx",
    "absent",
    "check_distinct",
    "definition",
    "on",
    "upcast",
]
