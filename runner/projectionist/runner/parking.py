"""A parked event read again: its row as the Delivery it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.runner.delivery import Delivery

if TYPE_CHECKING:
    from projectionist.core.db import Row
    from projectionist.runner.reading import Reader


def from_parked(row: Row, stream: str, reader: Reader) -> Delivery:
    """The delivery behind a parked row; its body is decoded by the code that runs now."""
    event, problem = reader.body(row["type"], row["event_schema"], row["data"])
    return Delivery(
        source=row["source"],
        id=row["id"],
        type=row["type"],
        schema=row["event_schema"],
        aggregate=row["aggregate"],
        version=row["version"],
        data=row["data"],
        hash=row["hash"],
        stream=stream,
        seq=row["seq"],
        subject=row["subject"],
        event=event,
        problem=problem,
        time=row["event_time"],
        correlation=row["correlation"],
        causation=row["causation"],
        traceparent=row["traceparent"],
        tracestate=row["tracestate"],
        incarnation=row["incarnation"],
        parked=True,
        attempts=row["attempts"],
        budget=row["budget"],
        discarded=row["discarded"],
    )
