"""Tells whether an event could come back after its inbox row is purged, with nothing else to stand against it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.runner.batch.planning import CONTIGUOUS, UNORDERED
from projectionist.runner.jetstream.durable import StreamUnfit

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Policy
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.jetstream.api import StreamConfig

USUAL_S = 30 * 86_400.0
"""How long the inbox of an ordered consumer is kept where the settings say nothing."""
CLOCKS_S = 300.0
"""The broker says when a message is too old, PostgreSQL when a row is: how far their clocks may be apart."""
NANO = 1e9


def kept_s(policy: Policy, sequence: str) -> float | None:
    """Return how long the inbox row of a settled event stays; None: for ever."""
    if policy.retention_s is None:
        return None if sequence == UNORDERED else USUAL_S
    return None if policy.retention_s == "forever" else policy.retention_s


def plain(seconds: float) -> str:
    """Return seconds as a person wrote them in the settings, however many."""
    return f"{seconds:.0f}" if seconds == round(seconds) else f"{seconds:g}"


def outlives(kept: float, stream: StreamConfig) -> bool:
    """Return whether a row that is kept so long is there as long as its message can be."""
    return stream.max_age > 0 and kept >= stream.max_age / NANO + CLOCKS_S


def unsafe(policy: Policy, sequence: str, stream: StreamConfig) -> str:
    """Return why this retention would let an event be applied twice; empty if it does not.

    Where there is an order, a position stands against whatever comes back, however late.
    """
    kept = kept_s(policy, sequence)
    if sequence != UNORDERED or kept is None or outlives(kept, stream):
        return ""
    back = "come back after its inbox row is gone, and without order no position would stand against it"
    said = f"retention_s = {plain(kept)}, but the stream"
    if not stream.max_age:
        return f"{said} has no max_age: a message can at any time {back}"
    age = stream.max_age / NANO
    sum_of = f"{plain(age)} + {plain(CLOCKS_S)} - {plain(kept)} = {plain(age + CLOCKS_S - kept)} s"
    clocks = f"with {plain(CLOCKS_S)} s for clocks that differ"
    return f"{said} keeps a message for {plain(age)} s: {clocks}, {sum_of} remain in which it can {back}"


def remedy(name: str, stream: StreamConfig) -> str:
    """Return what to do about it."""
    least = (
        f'at least {plain(stream.max_age / NANO + CLOCKS_S)}, or "forever"' if stream.max_age else '"forever"'
    )
    return f"Set retention_s of [consumers.{name}] to {least}"


def refuse_forgetting(definition: ConsumerDefinition, policy: Policy, stream: StreamConfig) -> None:
    """Raise StreamUnfit if an event of this stream could be applied twice because the inbox has forgotten it."""
    if why := unsafe(policy, definition.sequence, stream):
        raise StreamUnfit(f"{definition.name}: {why}", remedy=remedy(definition.name, stream))


def asked_by_rebuilds(kept: float, sequence: str, stream: StreamConfig) -> bool:
    """Return whether a rebuild would still ask for rows that are as old as that.

    In contiguous order versions say what to fold and when. Elsewhere only the inbox knows what was applied, and in
    which order, of all that the stream still holds.
    """
    return sequence != CONTIGUOUS and not outlives(kept, stream)
