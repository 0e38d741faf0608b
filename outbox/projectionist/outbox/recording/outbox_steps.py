"""Recording through the outbox: the statements of one call, one after the other, whoever executes them. Pure."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.core import cloudevents
from projectionist.outbox.intents.intent import MOST_CONTENT
from projectionist.outbox.intents.keys import intent_key, ordering_key
from projectionist.outbox.publishing.draft import Draft, FrozenPublish, PublishError
from projectionist.outbox.recording.call import RecordCall, StandingEvent, judge_call

if TYPE_CHECKING:
    from projectionist.core.postgres.statements import Statements
    from projectionist.outbox.recording.recorded import Recorded

RecordSteps = Generator[tuple[str, str], str, "Recorded"]
"""Yields a statement and its one parameter, and is sent its one value."""


class ConflictReport(msgspec.Struct):
    """How an aggregate, and the ids of a call, stand where nothing was written."""

    version: int
    standing: list[StandingEvent | None]


_report = msgspec.json.Decoder(ConflictReport).decode


def record_steps(call: RecordCall, sql: Statements) -> RecordSteps:
    """Write the events of a call, or find out why they could not be written."""
    document = encode_call(call, call.drafts())
    return _steps(call, sql, document)


def _steps(call: RecordCall, sql: Statements, document: str) -> RecordSteps:
    if int((yield sql["record_events"], document)):
        return call.recorded()
    # A statement of its own: it sees what the writer that was first has committed meanwhile.
    report = _report((yield sql["select_recorded_events"], document))
    return judge_call(call, report.version, report.standing)


def encode_call(call: RecordCall, drafts: Sequence[Draft]) -> str:
    """Encode the one parameter of both statements."""
    stream = call.stream.name
    keys = [intent_key("", call.stream.source, identity, stream) for identity in call.ids]
    headers = drafts[0].headers
    document = {
        "stream": stream,
        "source": call.stream.source,
        "aggregate": call.aggregate,
        "expected": call.expected,
        "keys": keys,
        "ids": call.ids,
        "classes": [str(event.__event_type__) for event in call.events],
        "bodies": [_text(draft) for draft in drafts],
        "wires": [_wire(draft, stream, key) for draft, key in zip(drafts, keys, strict=True)],
        "ordering": ordering_key(call.stream.source, stream, call.aggregate),
        "traceparent": headers.get(cloudevents.TRACEPARENT),
        "tracestate": headers.get(cloudevents.TRACESTATE),
    }
    return msgspec.json.encode(document).decode()


def _text(draft: Draft) -> str:
    if len(draft.data) > MOST_CONTENT:
        raise PublishError(f"the event has {len(draft.data)} bytes, more than {MOST_CONTENT}")
    return draft.data.decode()


def _wire(draft: Draft, stream: str, key: str) -> str:
    """Return what the relay publishes. The message's id is the intent's key, by which a lost answer is looked up."""
    headers = draft.headers | {cloudevents.MESSAGE_ID: key, cloudevents.EXPECTED_STREAM: stream}
    return msgspec.json.encode(FrozenPublish(draft.subject, headers)).decode()
