"""Every name of spans and attributes: public API. OpenTelemetry's messaging conventions 1.44, and our own.

`docs/telemetry.md` lists them; a test compares the page, this module, `instruments` and a real scrape.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "projectionist"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

# -- attributes of the conventions -------------------------------------------------------------------------------

SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
TEMPLATE: Final = "messaging.destination.template"
MESSAGE_ID: Final = "messaging.message.id"
MESSAGE_COUNT: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"
EVENT_TYPE: Final = "cloudevents.event_type"
EVENT_SOURCE: Final = "cloudevents.event_source"
DB_SYSTEM: Final = "db.system.name"
DB_SUMMARY: Final = "db.query.summary"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
CLIENT_ID: Final = "messaging.client.id"
GROUP: Final = "messaging.consumer.group.name"

# -- attributes of our own ---------------------------------------------------------------------------------------

CONSUMER: Final = "projectionist.consumer"
OUTCOME: Final = "projectionist.outcome"
DRAINED: Final = "projectionist.drained"
REPLAY: Final = "projectionist.replay"
EVENTS_READ: Final = "projectionist.events"
LINKS_OMITTED: Final = "projectionist.links.omitted"
PROVIDER: Final = "projectionist.provider"
INTENT: Final = "projectionist.intent"
INTENT_KEY: Final = "projectionist.intent.key"
ATTEMPT: Final = "projectionist.attempt"
STATE: Final = "projectionist.state"
REASON: Final = "projectionist.reason"
CAUSE: Final = "projectionist.cause"
KIND: Final = "projectionist.kind"
FINDING: Final = "projectionist.finding"
PHASE: Final = "projectionist.phase"
THRESHOLD: Final = "projectionist.threshold"
LOOP: Final = "projectionist.loop"
SERVER: Final = "projectionist.server"
WHAT: Final = "projectionist.what"
WORKER: Final = "projectionist.worker"
BAGGAGE: Final = "projectionist.baggage"
"""Followed by a member's name, of those that `[telemetry] baggage` lists."""

NATS: Final = "nats"
POSTGRESQL: Final = "postgresql"

# -- spans: `<operation> <destination>`, never with an id or a whole subject --------------------------------------

SEND: Final = "send"
RECEIVE: Final = "receive"
PROCESS: Final = "process"
SETTLE: Final = "settle"
LOOK_UP: Final = "lookup"
APPLY_BATCH: Final = "apply batch"
REBUILD: Final = "rebuild"
REPLAY_RANGE: Final = "replay"

SPANS: Final = {
    f"{SEND} {{subjects}}": "PRODUCER: an event is published; its context travels in the event's headers",
    f"{RECEIVE} {{stream}}": "CLIENT: a batch that holds sampled events is handed over; linked to up to 128 of them",
    f"{PROCESS} {{stream}}": "CONSUMER: one sampled event, in its producer's trace, linked to the receive span",
    APPLY_BATCH: "CLIENT: the transaction of a batch, from its barrier to its commit",
    f"{SETTLE} {{stream}}": "CLIENT: the acknowledgements of a batch",
    f"{SEND} {{provider}}": "PRODUCER for NATS, else CLIENT: one attempt of an intent; the provider gets its context",
    f"{LOOK_UP} {{provider}}": "CLIENT: a provider is asked whether an earlier attempt was carried out",
    f"{REBUILD} {{consumer}}": "INTERNAL: a rebuild as a whole, none of its events has a span",
    f"{REPLAY_RANGE} {{consumer}}": "INTERNAL: a replay as a whole",
}
