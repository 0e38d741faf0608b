"""What contradicts itself: identities and versions that stand for two different things. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.core.states import InboxState, IncidentKind
from projectionist.projections.folding.version_verdict import Verdict, judge_stale
from projectionist.runner.batch.writes import Quarantined, StillQuarantined

if TYPE_CHECKING:
    from datetime import datetime

    from projectionist.core.postgres.connections import Row
    from projectionist.runner.batch.writes import BatchWrites
    from projectionist.runner.decoding.delivery import Delivery, Unreadable

_HOLDS = frozenset(
    {InboxState.APPLIED, InboxState.IGNORED, InboxState.SKIPPED, InboxState.DISCARDED, InboxState.ERASED}
)


def judge_old(
    delivery: Delivery, holders: Iterable[Row], ranges: Iterable[Row]
) -> tuple[Verdict, Row | None]:
    """Return what an event at or below its position is; where another identity holds its version, which one."""
    holder = next((row for row in holders if _holds(row, delivery)), None)
    passed = [(r["version"], r["upto"]) for r in ranges if r["aggregate"] == delivery.aggregate]
    return judge_stale(delivery.version or 0, taken=holder is not None, stepped_over=passed), holder


def _holds(row: Row, delivery: Delivery) -> bool:
    same_version = (row["aggregate"], row["version"]) == (delivery.aggregate, delivery.version)
    other = (row["source"], row["id"]) != (delivery.source, delivery.id)
    return same_version and other and row["state"] in _HOLDS


def reused_identity(row: Row) -> str:
    """Say which event had the identity first."""
    return f"this identity came first with other content, at stream sequence {row['seq']}"


def reused_version(source: str, identity: str) -> str:
    """Say which event had the version first."""
    return f"this version belongs to event {identity!r} of source {source!r}"


def put_aside(delivery: Delivery, fact: IncidentKind, detail: str) -> Quarantined:
    """Return a readable event that contradicts another one, for quarantine."""
    d, head = delivery, delivery.arrival.head if delivery.arrival is not None else None
    return Quarantined(
        seq=d.seq,
        reason=fact,
        detail=detail,
        subject=d.subject,
        source=d.source,
        id=d.id,
        aggregate=d.aggregate,
        version=d.version,
        headers=head,
        data=d.data,
        size=len(d.data),
        hash=d.hash,
        type=d.type,
    )


def kept_aside(delivery: Delivery, asked: datetime, fact: IncidentKind, detail: str) -> StillQuarantined:
    """Return the same for one that was about to come out of quarantine: it stays there."""
    d = delivery
    return StillQuarantined(
        seq=d.seq,
        due=asked,
        reason=fact,
        detail=detail,
        source=d.source,
        id=d.id,
        aggregate=d.aggregate,
        version=d.version,
    )


def contradict(writes: BatchWrites, delivery: Delivery, kind: IncidentKind, detail: str) -> None:
    """Put an event aside that contradicts another one."""
    if delivery.released is None:
        writes.quarantined.append(put_aside(delivery, kind, detail))
    else:
        writes.kept.append(kept_aside(delivery, delivery.released, kind, detail))
    writes.add_incident(delivery, kind, detail)


def reuse(writes: BatchWrites, delivery: Delivery, source: str, identity: str) -> None:
    """Put the second of two events aside that claim one version: the first stands."""
    writes.winners.append((delivery.aggregate or "", delivery.version or 0, source, identity))
    writes.settle(delivery, InboxState.QUARANTINED, Verdict.REUSED)
    contradict(writes, delivery, IncidentKind.VERSION_REUSE, reused_version(source, identity))


def late(writes: BatchWrites, delivery: Delivery) -> None:
    """Step over an event whose version was stepped over before it came."""
    writes.settle(delivery, InboxState.SKIPPED, Verdict.LATE)
    writes.count(delivery, "late")
    text = "its version had been stepped over by a decision; it stays stepped over"
    writes.add_incident(delivery, IncidentKind.LATE, text)


def unreadable(bad: Unreadable) -> Quarantined:
    """Return bytes that are no event, for quarantine."""
    return Quarantined(
        seq=bad.seq,
        reason=bad.reason,
        detail=bad.detail,
        subject=bad.subject,
        source=bad.source,
        id=bad.id,
        aggregate=bad.aggregate,
        version=bad.version,
        headers=bad.headers,
        data=bad.data,
        size=bad.size,
        hash=bad.hash,
        again_s=bad.again_s,
    )
