"""From what the database, the settings and the streams say: which rows of each consumer may go now. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from projectionist.runner.retention.safety import asked_by_rebuilds, kept_s, unsafe

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.core.settings.settings import Policy, Settings
    from projectionist.runner.jetstream.api import StreamConfig


class Rule(msgspec.Struct, frozen=True):
    """The part of one consumer's inbox that may go: settled before that moment, at or below that floor."""

    consumer: int
    name: str
    before: datetime
    floor: int
    incarnation: int


class Held(msgspec.Struct, frozen=True):
    """Of this consumer nothing goes, and why."""

    consumer: str
    why: str


def decide(facts: Row, policy: Policy, settings: Settings, stream: StreamConfig | None) -> Rule | Held:
    """Return the rule for one consumer, whose facts were read under its barrier."""
    name, sequence = facts["name"], facts["sequence"]
    kept = kept_s(policy, sequence)
    if settings.retention.legal_hold or policy.legal_hold:
        return Held(name, "legal hold")
    if kept is None:
        return Held(name, "its inbox is kept for ever")
    if facts["building"]:
        return Held(name, "a rebuild is open, which may still ask for inbox rows")
    if stream is None:
        return Held(name, f"stream {facts['stream']} cannot be asked how long it keeps a message")
    if why := unsafe(policy, sequence, stream):
        return Held(name, why)
    if asked_by_rebuilds(kept, sequence, stream):
        return Held(
            name, "its rebuilds ask the inbox what was applied, as long as the stream may hold the message"
        )
    before = facts["now"] - timedelta(seconds=min(kept, 1e9))
    if facts["kept_since"] is not None:
        # The way back to a generation that is kept goes through the rows of what was applied since.
        before = min(before, facts["kept_since"])
    return Rule(facts["number"], name, before, facts["floor"], facts["incarnation"])


def under_hold(settings: Settings, names: Mapping[int, str]) -> list[int]:
    """Return consumers of which nothing goes, not even from the archive."""
    return [
        number
        for number, name in names.items()
        if settings.retention.legal_hold or settings.policy(name).legal_hold
    ]
