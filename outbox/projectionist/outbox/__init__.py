"""Side effects as rows: intents, their keys, and the process that carries them out."""

from __future__ import annotations

from projectionist.outbox.intents.intent import (
    AGGREGATE,
    Intent,
    IntentOptions,
    Scheduled,
    Slotted,
    options_of,
)
from projectionist.outbox.intents.keys import body_hash, frozen_body, intent_key
from projectionist.outbox.intents.outbox import IntentReused, Outbox, OutboxError
from projectionist.outbox.intents.schedule import Cancel

__all__ = [
    "AGGREGATE",
    "Cancel",
    "Intent",
    "IntentOptions",
    "IntentReused",
    "Outbox",
    "OutboxError",
    "Scheduled",
    "Slotted",
    "body_hash",
    "frozen_body",
    "intent_key",
    "options_of",
]
