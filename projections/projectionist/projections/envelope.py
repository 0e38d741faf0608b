"""Envelope: the metadata of an event."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """Identity (source + id), aggregate, version, time, cause, trace and stream position of one event."""

    source: str
    id: str
    type: str
    schema: int = 1
    aggregate_type: str = ""
    aggregate_id: str | None = None
    version: int | None = None
    time: datetime | None = None
    correlation: str | None = None
    causation: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    stream: str = ""
    sequence: int = 0

    @property
    def aggregate(self) -> str | None:
        """Return the aggregate as the one text that tables hold: `type/id`."""
        return None if self.aggregate_id is None else f"{self.aggregate_type}/{self.aggregate_id}"
