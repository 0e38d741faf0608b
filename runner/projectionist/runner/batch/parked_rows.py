"""Parked events read again: their rows as the Deliveries they were. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from projectionist.runner.decoding.delivery import Delivery

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.runner.decoding.decoder import Decoder


class ParkedRun(msgspec.Struct):
    """Holds what is parked behind one head, as far as one batch may try it."""

    deliveries: list[Delivery]
    limit: int
    """How many were asked for; as many are there if more may follow."""
    lacking: int | None = None
    """The version of the first reference, which nothing may pass before its bytes are fetched."""


def parked_runs(
    rows: Iterable[Row], reading: ParkedDecoder, limit: int, most_bytes: int
) -> dict[str, ParkedRun]:
    """Return parked rows, in the order of versions, by their aggregates.

    `successors` cuts a run as soon as it holds `most_bytes`; that is seen here by the same sum.
    """
    runs: dict[str, ParkedRun] = {}
    sizes: dict[str, int] = {}
    for row in rows:
        aggregate = row["aggregate"]
        run = runs.setdefault(aggregate, ParkedRun([], limit))
        if run.lacking is not None:
            continue
        if row["data"] is None and row["problem"] is None and reading.needs_bytes(row):
            run.lacking = row["version"]
            continue
        run.deliveries.append(reading.unparked(row))
        sizes[aggregate] = sizes.get(aggregate, 0) + len(row["data"] or b"")
        if sizes[aggregate] >= most_bytes:
            run.limit = len(run.deliveries)
    return runs


class ParkedDecoder:
    """Reads parked rows of one stream by the code that runs now."""

    def __init__(self, stream: str, reader: Decoder) -> None:
        self._stream = stream
        self._reader = reader

    def needs_bytes(self, row: Row) -> bool:
        """Return whether the row's body is read: not if it was decided against, or if nobody handles its type."""
        return not row["discarded"] and self._reader.decodes(row["type"])

    def unparked(self, row: Row) -> Delivery:
        """Return the delivery behind a parked row."""
        event, problem, erased = None, None, False
        if row["data"] is not None:
            event, problem, erased = self._reader.body(row["type"], row["event_schema"], row["data"])
        elif self.needs_bytes(row):
            problem = row["problem"]
        return Delivery(
            source=row["source"],
            id=row["id"],
            type=row["type"],
            schema=row["event_schema"],
            aggregate=row["aggregate"],
            version=row["version"],
            data=row["data"] or b"",
            hash=row["hash"],
            stream=self._stream,
            seq=row["seq"],
            subject=row["subject"],
            event=event,
            problem=problem,
            time=row["event_time"],
            correlation=row["correlation"],
            causation=row["causation"],
            traceparent=row["traceparent"],
            tracestate=row["tracestate"],
            baggage=row["baggage"],
            incarnation=row["incarnation"],
            parked=True,
            attempts=row["attempts"],
            budget=row["budget"],
            discarded=row["discarded"],
            erased=erased,
        )
