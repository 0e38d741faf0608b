"""Classes and decorators for users: events in, rows and intents out. No broker or database driver is known here."""

from __future__ import annotations

from projectionist.projections.batch_marks import on_batch
from projectionist.projections.compiled.definition import Definition, Kind, check_distinct, definition
from projectionist.projections.consumer_classes import Projection, Reactor, SqlProjection
from projectionist.projections.envelope import Envelope
from projectionist.projections.errors import BadValue, Erased, EventError
from projectionist.projections.event import Event
from projectionist.projections.event_batch import EventIntent, Events
from projectionist.projections.handler_marks import absent, on
from projectionist.projections.handler_results import Delete, Refuse, Retry
from projectionist.projections.lookups import Lookup, Reference, lookup, reference
from projectionist.projections.stream import Stream
from projectionist.projections.tables.sql_tables import Tx
from projectionist.projections.tables.table import Index
from projectionist.projections.upcasting import upcast
from projectionist.projections.view_sets import ViewSet

__all__ = [
    "BadValue",
    "Definition",
    "Delete",
    "Envelope",
    "Erased",
    "Event",
    "EventError",
    "EventIntent",
    "Events",
    "Index",
    "Kind",
    "Lookup",
    "Projection",
    "Reactor",
    "Reference",
    "Refuse",
    "Retry",
    "SqlProjection",
    "Stream",
    "Tx",
    "ViewSet",
    "absent",
    "check_distinct",
    "definition",
    "lookup",
    "on",
    "on_batch",
    "reference",
    "upcast",
]
