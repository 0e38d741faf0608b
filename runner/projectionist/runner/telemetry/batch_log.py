"""What a committed batch is worth a line: repeats, what had to wait, what contradicts itself, what stays silent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from projectionist.core.log_format import facts

if TYPE_CHECKING:
    from projectionist.runner.batch.types import BatchResult
    from projectionist.runner.batch.writes import BatchWrites, Quarantined
    from projectionist.runner.decoding.delivery import Delivery

log = logging.getLogger("projectionist.runner")

FIRST = 3
"""How many ids a line names."""


def log_batch(consumer: str, applied: Sequence[BatchResult]) -> None:
    """Say it, one line a batch and matter; each event's own line is for those who look closely (DEBUG)."""
    for one in applied:
        writes = one.writes
        if writes.repeats:
            _few(consumer, "duplicate", "%s: %d duplicates", writes.repeats)
        if writes.parked:
            _log_parked(consumer, writes)
        if writes.unparked:
            _few(consumer, "drained", "%s: %d parked events drained", writes.unparked)
        if writes.newly_quarantined:
            _log_quarantined(consumer, writes.newly_quarantined)
        for incident in writes.incidents:
            about = facts(
                consumer=consumer,
                source=incident.source,
                message_id=incident.id,
                kind=f"incident_{incident.kind}",
            )
            log.warning("%s: incident %s", consumer, incident.kind, extra=about)
        if suppressed := sum(n for (_, what), n in writes.counts.items() if what.startswith("suppressed_")):
            about = facts(consumer=consumer, count=suppressed, kind="suppressed")
            log.info("%s: %d intents below the effects mark are not made", consumer, suppressed, extra=about)


def tell_unnamed(consumer: str, deliveries: Sequence[Delivery]) -> None:
    """Say, once a process, that producers name their events in no way that is looked for."""
    found = [one for one in deliveries if one.used_fallback]
    if found:
        text = (
            "%s: event %s (sequence %d) has no id of its producer, so that is what it is known by; others like it are "
            "counted as `unnamed`, and not logged"
        )
        about = facts(consumer=consumer, count=len(found), message_ids=[found[0].id], kind="unnamed")
        log.warning(text, consumer, found[0].id, found[0].seq, extra=about)


def _log_parked(consumer: str, writes: BatchWrites) -> None:
    for cause in dict.fromkeys(parked.cause for parked in writes.parked):
        alike = [parked.delivery for parked in writes.parked if parked.cause is cause]
        if cause == "failed":  # somebody has to act, and a host without log settings shows warnings alone
            hint = ". `projectionist parked list` says why"
            _few(consumer, "parked_failed", "%s: %d events parked (failed)", alike, hint, logging.WARNING)
        elif cause != "stored":
            _few(consumer, f"parked_{cause}", f"%s: %d events parked ({cause})", alike)


def _log_quarantined(consumer: str, quarantined: Sequence[Quarantined]) -> None:
    """Log what is newly in quarantine: no other line says so."""
    reasons = ", ".join(sorted({one.reason for one in quarantined}))
    ids = [one.id for one in quarantined if one.id is not None][:FIRST]
    about = facts(consumer=consumer, count=len(quarantined), message_ids=ids, kind="quarantined")
    text = "%s: %d events go to quarantine (%s), the first at sequence %d"
    log.warning(text, consumer, len(quarantined), reasons, quarantined[0].seq, extra=about)


def _few(
    consumer: str,
    kind: str,
    text: str,
    deliveries: Sequence[Delivery],
    hint: str = "",
    level: int = logging.INFO,
) -> None:
    first = [one.id for one in deliveries[:FIRST]]
    about = facts(
        consumer=consumer,
        count=len(deliveries),
        message_ids=first,
        traceparent=deliveries[0].traceparent,
        kind=kind,
    )
    log.log(level, f"{text}, the first: %s{hint}", consumer, len(deliveries), ", ".join(first), extra=about)
    if log.isEnabledFor(logging.DEBUG):
        for one in deliveries:
            about = facts(
                consumer=consumer, source=one.source, message_id=one.id, traceparent=one.traceparent
            )
            log.debug("%s: %s", consumer, kind, extra=about)
