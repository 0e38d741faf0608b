"""Answers what everybody should be able to say of a consumer, by its class and the settings. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.projections.compiled.definition import Kind
from projectionist.runner.retention.safety import kept_s, plain

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Policy, Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.jetstream.api import StreamInfo

_ORDER = {
    "contiguous": "1, 2, 3, …: older is stale, newer waits for what is missing",
    "monotonic": "rising: older is stale, newer goes over what is missing",
    "unordered": "none: every event is applied once, in any order",
}


def questions(
    definition: ConsumerDefinition, settings: Settings, found: StreamInfo | None
) -> list[tuple[str, str]]:
    """Return question and answer; `found` is the stream, where it could be asked."""
    name, policy, sequence = definition.name, settings.policy(definition.name), definition.sequence
    metrics = settings.telemetry.metrics
    return [
        ("What is the identity of an event?", _identity(policy, sequence)),
        ("In which scope is it unique?", f"consumer {name}: each consumer settles each identity once"),
        ("Is it the same in retries and replays?", _stable(policy.identity, sequence)),
        ("What marks it as done?", "its inbox row, in the transaction of the rows it changes"),
        ("What are the keys of its side effects?", _keys(definition)),
        ("What may a replay do?", _replay(definition, policy)),
        ("How long is it remembered, and how long can it come back?", _memory(policy, sequence, found)),
        ("What of old and future versions?", _versions(sequence, policy.unknown)),
        (
            "Where is what is stuck?",
            f"projectionist parked list --consumer {name}; quarantine, incidents, outbox",
        ),
        ("Who is alerted?", _alerted(metrics)),
    ]


def _alerted(metrics: str) -> str:
    if metrics == "none":
        return "nobody: [telemetry] names no exporter and no endpoint"
    return f"whoever watches the metrics ({metrics}), while `projectionist observe` runs"


def _identity(policy: Policy, sequence: str) -> str:
    named = " + ".join(policy.identity_fields)
    if not named:
        other = "stream, incarnation and sequence" if sequence == "unordered" else "aggregate and version"
        named = f"header {policy.headers.id}" + f", else {other}" * (policy.identity == "fallback")
    own = "".join(f"; of {kind}: {' + '.join(of)}" for kind, of in sorted(policy.identity_types.items()))
    return f"source and {named}" + ", with its type" * (policy.identity_scope == "type") + own


def _stable(identity: str, sequence: str) -> str:
    if identity == "required":
        return "yes: the producer's; an event without one goes into quarantine"
    if sequence == "unordered":
        return "the producer's is; the fallback is the message's: published again it is another event"
    return "yes: the producer's, else aggregate and version"


def _keys(definition: ConsumerDefinition) -> str:
    slots = ", ".join(sorted(slot for view in definition.views for slot in view.slots))
    return f"consumer, event and slot ({slots}); no attempt, no revision" if slots else "it has none"


def _replay(definition: ConsumerDefinition, policy: Policy) -> str:
    allowed = policy.replay or (
        "forbidden" if all(one.kind is Kind.REACTOR for one in definition.views) else "no-effects"
    )
    return f'"{allowed}"; settled events are duplicates, whatever it says'


def _memory(policy: Policy, sequence: str, found: StreamInfo | None) -> str:
    kept = kept_s(policy, sequence)
    inbox = "by the inbox for ever" if kept is None else f"by the inbox for {plain(kept)} s"
    position = "" if sequence == "unordered" else ", by its version for ever"
    if found is None:
        return f"{inbox}{position}; the stream cannot be asked"
    age = f"for {plain(found.config.max_age / 1e9)} s" if found.config.max_age else "for ever"
    return f"{inbox}{position}; the stream keeps it {age}"


def _versions(sequence: str, unknown: str) -> str:
    strange = "stops its aggregate" if unknown == "fail" else "is stepped over and counted"
    return f"{_ORDER[sequence]}; a type that no handler declares {strange}"
