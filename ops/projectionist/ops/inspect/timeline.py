"""What happened to an aggregate, or to events, drawn as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from projectionist.core.postgres.statements import Statements
from projectionist.ops.inspect.timeline_html import TimelineBar, page
from projectionist.outbox.admin.intent_actions import IntentActions

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection
    from projectionist.runner.admin.event_history import Journey, Passage

_LOOKS = {
    **dict.fromkeys(("applied", "ignored", "stale", "sent"), "good"),
    **dict.fromkeys(("quarantined", "dead", "refused", "mismatch", "sticky", "reconcile", "unknown"), "bad"),
    **dict.fromkeys(("parked", "ready", "retry", "held", "in_flight", "not_sent"), "wait"),
}


async def story(connection: Connection, schema: str, aggregate: str) -> str:
    """The page about an aggregate ("type/id"), with the trace that its last traced event belongs to."""
    await IntentActions(connection, schema).opened()
    rows = await connection.fetch(
        Statements("projectionist.ops", schema)["select_aggregate_timeline"], aggregate
    )
    traces = [row["traceparent"][3:35] for row in rows if row["traceparent"]]
    return page(aggregate, traces[-1] if traces else None, [bar(row) for row in rows])


def bar(row: Record) -> TimelineBar:
    """One row of the story."""
    facts = {
        "state": row["state"],
        "event": row["id"],
        "intent key": row["key"],
        "said": row["said"],
        "traceparent": row["traceparent"],
    }
    return TimelineBar(
        name=row["name"],
        who=row["who"],
        start=row["start"],
        end=row["over"],
        depth=row["depth"],
        look=_LOOKS.get(row["state"], "plain"),
        facts={name: value for name, value in facts.items() if value is not None},
    )


def drawn(journeys: Sequence[Journey]) -> str:
    """The page about the journeys of events; what is only known without a time is left to the text."""
    bars = [bar for one in journeys for bar in _journey(one)]
    trace = next((one.trace for one in journeys if one.trace), None)
    return page(", ".join(f"{one.type or 'event'} {one.id}" for one in journeys), trace, bars)


def _journey(one: Journey) -> Iterator[TimelineBar]:
    for passage in one.consumers:
        yield from _passage(passage)


def _passage(one: Passage) -> Iterator[TimelineBar]:
    if one.received is not None:
        facts = {
            "state": one.state,
            "verdict": one.verdict,
            "subject": one.subject,
            "sequence": str(one.seq),
            "process": f"{one.host}:{one.pid}" if one.host else "",
            "rows": ", ".join(one.rows),
        }
        look = _LOOKS.get(one.state, "plain")
        yield TimelineBar(
            name=one.state,
            who=one.consumer,
            start=one.received,
            end=one.processed,
            look=look,
            facts=_said(facts),
        )
    for each in one.beside:
        facts = {"what": each.what or "", "who": each.who or "", "why": each.why or ""}
        yield TimelineBar(
            name=each.kind,
            who=one.consumer,
            start=each.at,
            end=each.at,
            depth=1,
            look="wait",
            facts=_said(facts),
        )
    for intent in one.intents:
        yield from _intent(one.consumer, intent)


def _intent(consumer: str, intent: Mapping[str, Any]) -> Iterator[TimelineBar]:
    attempts = [_attempt(intent["provider"], attempt) for attempt in intent["attempts"]]
    over = attempts[-1].end if attempts and intent["state"] == "sent" else None
    name, look = f"intent {intent['slot']}", _LOOKS.get(intent["state"], "plain")
    facts = {"state": intent["state"], "key": intent["key"], "provider": intent["provider"]}
    yield TimelineBar(
        name=name, who=consumer, start=intent["created"], end=over, depth=1, look=look, facts=facts
    )
    yield from attempts


def _attempt(provider: str, attempt: Mapping[str, Any]) -> TimelineBar:
    started: datetime = attempt["started"]
    over = None if attempt["took_s"] is None else started + timedelta(seconds=attempt["took_s"])
    facts = {
        name: str(attempt[name] or "") for name in ("outcome", "status", "provider_id", "reason", "relay")
    }
    name, look = f"attempt {attempt['attempt']} at {provider}", _LOOKS.get(attempt["outcome"], "plain")
    return TimelineBar(
        name=name, who="relay", start=started, end=over, depth=2, look=look, facts=_said(facts)
    )


def _said(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in facts.items() if value}
