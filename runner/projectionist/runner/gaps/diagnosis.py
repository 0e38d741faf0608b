"""Says why missing versions of an aggregate cannot be had, and what an operator can do about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from shlex import quote

import msgspec

from projectionist.core.printable_text import join_first
from projectionist.core.states import Finding

MOST_LISTED = 5


class MissingVersions(msgspec.Struct, frozen=True):
    """The versions an aggregate misses: those between its position and the first parked event."""

    aggregate: str
    version: int
    """The position."""
    seq: int
    """The stream sequence of the event applied last; 0 if none was."""
    until: int
    """The first parked version."""
    behind: int
    """The stream sequence of that event."""

    @property
    def count(self) -> int:
        """Return how many are missing."""
        return self.until - self.version - 1

    def misses(self, version: int | None) -> bool:
        """Return whether this version is one of them."""
        return version is not None and self.version < version < self.until

    @property
    def shown(self) -> str:
        """Return the versions, for people."""
        first, last = self.version + 1, self.until - 1
        return f"version {first}" if first == last else f"versions {first} to {last}"


class OtherSubject(msgspec.Struct, frozen=True):
    """A missing version that the stream holds where this consumer does not read."""

    version: int
    seq: int
    subject: str


class DecisionRecord(msgspec.Struct, frozen=True):
    """Who discarded something out of quarantine, when, and why."""

    actor: str
    at: datetime
    reason: str

    @property
    def shown(self) -> str:
        """Return who it was, and when, for people."""
        return f"by {self.actor} at {self.at.isoformat(timespec='seconds')}"


class QuarantinedNearby(msgspec.Struct, frozen=True):
    """An event of the aggregate's subject that was put into quarantine."""

    seq: int
    version: int | None
    reason: str
    discard: DecisionRecord | None = None
    """None where it waits there."""

    @property
    def key(self) -> str:
        """Return which words say what has become of it."""
        if self.discard is None:
            return "quarantined"
        return "unread" if self.version is None else "discarded"

    @property
    def shown(self) -> str:
        """Return where it is, for people."""
        place = f"sequence {self.seq}{'' if self.version is None else f' (version {self.version})'}"
        return f"{place}: {self.reason}" if self.discard is None else f"{place}, {self.discard.shown}"


class SearchEvidence(msgspec.Struct, frozen=True):
    """The facts about a stream in which missing versions were looked for, in vain."""

    stream: str
    first_seq: int
    last_seq: int
    """The end of the stream when it was read."""
    subject: str | None
    """The aggregate's subject; None if the consumer's subjects do not name its place."""
    floor_passed: bool
    """Whether everything up to that end has been settled by this consumer."""
    is_taken: bool = True
    """Whether the stream takes messages of that subject now, or has them from a source."""
    elsewhere: OtherSubject | None = None
    quarantined: Sequence[QuarantinedNearby] = ()


def is_implausible(lack: MissingVersions, last_seq: int) -> bool:
    """Return whether more versions are missing than the stream has ever held messages."""
    return lack.count > last_seq


def diagnose(lack: MissingVersions, evidence: SearchEvidence) -> Finding:
    """Return the finding; without proof that everything was settled it is always that they may still come."""
    if is_implausible(lack, evidence.last_seq):
        return Finding.IMPLAUSIBLE
    if not evidence.floor_passed:
        return Finding.IN_FLIGHT
    if evidence.subject is None or evidence.elsewhere is not None:
        return Finding.FILTERED
    # The one settled last may be gone too: only what came after it could have been the missing ones.
    return Finding.PURGED if evidence.first_seq > lack.seq + 1 else Finding.LOST


def may_come(lack: MissingVersions, finding: Finding, evidence: SearchEvidence) -> bool:
    """Return whether the missing versions may merely be late: nothing shows where they are, or that they cannot be."""
    if finding is Finding.IMPLAUSIBLE or evidence.elsewhere is not None:
        return False
    return not any(lack.misses(one.version) for one in evidence.quarantined)


def explain_gap(lack: MissingVersions, finding: Finding, evidence: SearchEvidence) -> str:
    """Return the finding in words, with the next step."""
    key: str = finding
    if finding is Finding.FILTERED and evidence.elsewhere is not None:
        key = "elsewhere"
    nearest = _nearest(lack, evidence.quarantined) if finding in _MAY_BE_QUARANTINED else None
    if nearest is not None:
        key = nearest.key
    text = f"{{lack.aggregate}} lacks {{lack.shown}}: {_WHAT[key]}. Next: {_THEN[key]}"
    if finding is not Finding.IN_FLIGHT:
        text += ", or step over them with `{step}`"
    lacking = f"--aggregate {quote(lack.aggregate)} --versions {lack.version + 1}..{lack.until - 1}"
    step = f"projectionist parked accept-gap {lacking} --reason …"
    filled = text.format(lack=lack, evidence=evidence, nearest=nearest, step=step)
    untaken = "" if evidence.is_taken else f". Stream {evidence.stream} takes no such subject now"
    waiting = [one.shown for one in evidence.quarantined if one.discard is None]
    discarded = [one.shown for one in evidence.quarantined if one.discard is not None and one is not nearest]
    return filled + untaken + _listed(_WAITING, waiting) + _listed(_DISCARDED, discarded)


def _nearest(lack: MissingVersions, near: Sequence[QuarantinedNearby]) -> QuarantinedNearby | None:
    """Return what says most of the missing versions: one that waits, one that was discarded, what may be one."""
    missed = [one for one in near if lack.misses(one.version)]
    unread = [one for one in near if one.discard is not None and one.version is None]
    return next((one for one in missed if one.discard is None), next(iter([*missed, *unread]), None))


def _listed(where: str, shown: Sequence[str]) -> str:
    return f". {where}: {join_first(shown, MOST_LISTED)}" if shown else ""


_WAITING = "In quarantine from the same subject, look there first"
_DISCARDED = "Discarded from the same subject"


_MAY_BE_QUARANTINED = frozenset({Finding.LOST, Finding.PURGED})
_WHAT: dict[str, str] = {
    "quarantined": "version {nearest.version} is in quarantine, at sequence {nearest.seq}: {nearest.reason}",
    "discarded": "version {nearest.version} was at sequence {nearest.seq}, and discarded, {nearest.discard.shown}: "
    "{nearest.discard.reason}",
    "unread": "not found, but what came at sequence {nearest.seq} from the same subject was discarded before its "
    "version was read, {nearest.discard.shown}: {nearest.discard.reason}",
    Finding.IN_FLIGHT: "they may still be delivered",
    Finding.PURGED: "purged, it seems: stream {evidence.stream} begins at sequence {evidence.first_seq}, and the event "
    "before them was {lack.seq}",
    Finding.FILTERED: "the consumer's subjects do not say which subject of stream {evidence.stream} is this "
    "aggregate's",
    "elsewhere": "version {evidence.elsewhere.version} is at sequence {evidence.elsewhere.seq} on "
    "{evidence.elsewhere.subject}, which this consumer does not read",
    Finding.LOST: "not in stream {evidence.stream}. Everything up to sequence {evidence.last_seq} was settled, and "
    "subject {evidence.subject} was read to that end: never published, or deleted",
    Finding.IMPLAUSIBLE: "more than stream {evidence.stream} has ever held ({evidence.last_seq} messages). Version "
    "{lack.until} at sequence {lack.behind} is not to be believed, or the stream begins in mid-history",
}
_THEN: dict[str, str] = {
    "quarantined": "correct it there (`projectionist quarantine show {nearest.seq}`), or have it published anew",
    "discarded": "have it published anew",
    "unread": "have it published anew",
    Finding.IN_FLIGHT: "nothing has to be done",
    Finding.PURGED: "publish them again with the ids they had",
    Finding.FILTERED: "write {{aggregate}} in the aggregate's place in subjects=",
    "elsewhere": "let a consumer with a name of its own read every subject of the aggregate",
    Finding.LOST: "publish them with the ids they had",
    Finding.IMPLAUSIBLE: "discard that event, or give the consumer a baseline",
}
