"""Parked events read again: their rows as the Deliveries they were. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from projectionist.runner.delivery import Delivery

if TYPE_CHECKING:
    from projectionist.core.db import Row
    from projectionist.projections import Event
    from projectionist.runner.reading import Reader


class Behind(msgspec.Struct):
    """What is parked behind one head, as far as one batch may try it."""

    deliveries: list[Delivery]
    limit: int
    """How many were asked for; as many are there if more may follow."""
    lacking: int | None = None
    """The version of the first reference, which nothing may pass before its bytes are fetched."""


def behind(
    rows: Iterable[Row], unparked: Callable[[Row], Delivery], limit: int, most_bytes: int
) -> dict[str, Behind]:
    """Parked rows, in the order of versions, by their aggregates.

    `successors` cuts a run as soon as it holds `most_bytes`; that is seen here by the same sum.
    """
    runs: dict[str, Behind] = {}
    sizes: dict[str, int] = {}
    for row in rows:
        aggregate = row["aggregate"]
        run = runs.setdefault(aggregate, Behind([], limit))
        if run.lacking is not None:
            continue
        if is_reference(row):
            run.lacking = row["version"]
            continue
        run.deliveries.append(unparked(row))
        sizes[aggregate] = sizes.get(aggregate, 0) + len(row["data"] or b"")
        if sizes[aggregate] >= most_bytes:
            run.limit = len(run.deliveries)
    return runs


def is_reference(row: Row) -> bool:
    """Whether the bytes of a parked event have to be fetched before it can be tried."""
    return row["data"] is None and row["problem"] is None and not row["discarded"]


def from_parked(row: Row, stream: str, reader: Reader) -> Delivery:
    """The delivery behind a parked row; its body is decoded by the code that runs now."""
    event, problem = _body(row, reader)
    return Delivery(
        source=row["source"],
        id=row["id"],
        type=row["type"],
        schema=row["event_schema"],
        aggregate=row["aggregate"],
        version=row["version"],
        data=row["data"] or b"",
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


def _body(row: Row, reader: Reader) -> tuple[Event | None, str | None]:
    """Of a row without bytes nothing is decoded: it was decided against, or says why its bytes cannot be had."""
    if row["data"] is None:
        return None, None if row["discarded"] else row["problem"]
    return reader.body(row["type"], row["event_schema"], row["data"])
