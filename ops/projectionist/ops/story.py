"""The story of one aggregate, read from our tables and drawn as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.sql import Statements
from projectionist.ops.waterfall import Bar, page
from projectionist.outbox.verbs import Verbs

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.db import Connection

_LOOKS = {
    **dict.fromkeys(("applied", "ignored", "stale", "sent"), "good"),
    **dict.fromkeys(("quarantined", "dead", "refused", "mismatch", "sticky", "reconcile", "unknown"), "bad"),
    **dict.fromkeys(("parked", "ready", "retry", "held", "in_flight", "not_sent"), "wait"),
}


async def story(connection: Connection, schema: str, aggregate: str) -> str:
    """The page about an aggregate ("type/id"), with the trace that its last traced event belongs to."""
    await Verbs(connection, schema).opened()
    rows = await connection.fetch(Statements("projectionist.ops", schema)["story"], aggregate)
    traces = [row["traceparent"][3:35] for row in rows if row["traceparent"]]
    return page(aggregate, traces[-1] if traces else None, [bar(row) for row in rows])


def bar(row: Record) -> Bar:
    """One row of the story."""
    facts = {
        "state": row["state"],
        "event": row["id"],
        "intent key": row["key"],
        "said": row["said"],
        "traceparent": row["traceparent"],
    }
    return Bar(
        name=row["name"],
        who=row["who"],
        start=row["start"],
        end=row["over"],
        depth=row["depth"],
        look=_LOOKS.get(row["state"], "plain"),
        facts={name: value for name, value in facts.items() if value is not None},
    )
