"""A parked event read again: its row as the Delivery it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from projectionist.runner.delivery import Delivery

if TYPE_CHECKING:
    from projectionist.runner.reading import Reader


def from_parked(row: Mapping[str, Any], stream: str, reader: Reader) -> Delivery:
    """The delivery behind a parked row; its body is decoded by the code that runs now."""
    event, problem = reader.body(row["type"], row["event_schema"], row["data"])
    return Delivery(
        *(row["source"], row["id"], row["type"], row["event_schema"], row["aggregate"], row["version"]),
        *(row["data"], row["hash"], stream, row["seq"], row["subject"], event, problem),
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
