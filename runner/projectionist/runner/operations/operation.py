"""An operation as all see it, and what is to be done next in it: samples that grow, and stop where none gets through.

Pure: rows in, decisions out.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.digest import digest, is_digest
from projectionist.core.states import OperationOutcome

if TYPE_CHECKING:
    from projectionist.outbox.admin.intent_actions import IntentFilter
    from projectionist.runner.admin.parked_queries import ParkedFilter
    from projectionist.runner.admin.quarantine_queries import QuarantineFilter

    Chosen = ParkedFilter | QuarantineFilter | IntentFilter

SAMPLES = (1, 5, 20, 100)
"""How many of a group are tried before more are; behind these samples all the rest are one."""
COMMANDS = {"intents": "outbox"}
"""Commands that are not called as what they are about."""
MOST_TRIED = 1_000
"""So many are tried at a time: who tries them comes behind, or does not try at all."""
CARRIED_S = 15.0
"""Who has given no sign of life for so long carries an operation out no more. No step waits as long for a lock."""
BRIEF_S = 2.0
"""What is done within so long leaves no row, of acts that may be brief."""


class OperationKind(StrEnum):
    """What operations there are."""

    RETRY_PARKED = "retry_parked"
    SKIP_PARKED = "skip_parked"
    DISCARD_PARKED = "discard_parked"
    RETRY_QUARANTINE = "retry_quarantine"
    DISCARD_QUARANTINE = "discard_quarantine"
    RETRY_INTENTS = "retry_intents"
    DISCARD_INTENTS = "discard_intents"
    REBUILD = "rebuild"
    VERIFY = "verify"
    REPLAY = "replay"
    PURGE = "purge"
    ERASE = "erase"
    PREVIEW = "preview"

    @property
    def about(self) -> str:
        """Return what it is about: `parked`, `quarantine` or `intents`."""
        return self.partition("_")[2]

    @property
    def is_tried(self) -> bool:
        """Return whether others carry out what it asks for: then samples are judged by what comes of them."""
        return self.startswith("retry_")

    @property
    def may_be_brief(self) -> bool:
        """Return whether it leaves no row where it is done within BRIEF_S: scripts call such acts by the thousand."""
        return self in (OperationKind.PURGE, OperationKind.ERASE, OperationKind.PREVIEW)


def bounds(kind: OperationKind) -> list[int]:
    """Return at which place of its group each sample but the first begins; none for what is done at once."""
    if not kind.is_tried:
        return []
    return [sum(SAMPLES[: number + 1]) + 1 for number in range(len(SAMPLES))]


def in_short(chosen: Chosen) -> dict[str, object]:
    """Return filters as they may be shown to all: errors and destinations are content; their digests stand for them."""
    found = {name: value for name, value in msgspec.structs.asdict(chosen).items() if value is not None}
    for name in _CONTENT & found.keys():
        text = found[name]
        found[name] = f"[{text if is_digest(text) else digest(text)}]"
    if states := found.pop("states", ()):
        found["state"] = ", ".join(states)
    return found


_CONTENT = {"error", "destination"}


class SampleStanding(msgspec.Struct, frozen=True):
    """The sample that an operation is at."""

    alike: int
    sample: int
    first: int
    """The place of its first item; the others follow."""
    items: int
    waits: bool
    """Whether some of it has not been touched."""
    tried: int
    """Of how many it is not known yet what became of them."""
    before_done: int
    before_failed: int
    """How the sample before it went."""


class SampleStep(StrEnum):
    """What is to be done next."""

    ACT = "act"
    """Upon what waits in this sample."""
    LOOK = "look"
    """What has come of the sample."""
    LEAVE = "leave"
    """The rest of this group: none of the sample before it got through."""
    END = "end"


def next_step(at: SampleStanding | None) -> SampleStep:
    """Return what is to be done next; None: nothing is open any more."""
    if at is None:
        return SampleStep.END
    if at.before_failed and not at.before_done:
        return SampleStep.LEAVE
    return SampleStep.ACT if at.waits and at.tried < MOST_TRIED else SampleStep.LOOK


class OperationReport(msgspec.Struct, frozen=True, kw_only=True):
    """An operation: who, why, what it matches, how far it is, who carries it out."""

    number: int
    kind: str
    """An OperationKind, or one that a newer version has begun."""
    chosen: dict[str, object]
    """The filters that chose what it is about."""
    who: str
    reason: str
    rate: float
    """At most so many a second; 0: as many as there may be."""
    patience_s: float
    """How long it waits until what it has made due is tried."""
    began: datetime
    matched: int
    done: int
    failed: int
    refused: int
    tried: int
    """How many are being tried: of what is left."""
    owner: str | None
    beat: datetime
    silent_s: float
    stop_asked_by: str | None
    stop_reason: str | None
    ended: datetime | None
    outcome: str | None
    """An OperationOutcome, or one that a newer version knows."""
    note: str | None
    phase: str | None
    """Of a long act: what it is at. Its counts are of this phase."""
    pace: float | None
    """Of a long act: how many are done a second in this phase."""
    is_carried_out: bool
    """Whether somebody is at work on it."""

    @property
    def words(self) -> tuple[str, ...]:
        """Return the command that begins it: `parked retry`, `rebuild`."""
        verb, _, noun = self.kind.partition("_")
        return (COMMANDS.get(noun, noun.replace("_", " ")), verb) if noun else (verb,)

    @property
    def is_group(self) -> bool:
        """Return whether it acts on items one after the other; otherwise it is one long act."""
        return "_" in self.kind

    @property
    def is_tried(self) -> bool:
        """Return whether others carry out what it asks for; of what this version does not know: no."""
        return self.kind in set(OperationKind) and OperationKind(self.kind).is_tried

    @property
    def left(self) -> int:
        """Return how many of its items nothing is known of yet, or were not touched."""
        return self.matched - self.done - self.failed - self.refused

    @property
    def is_abandoned(self) -> bool:
        """Return whether it has not ended, and nobody carries it out."""
        return self.ended is None and not self.is_carried_out

    @property
    def seconds(self) -> float:
        """Return how long it has gone on, up to its end or its last sign of life."""
        return max(0.0, ((self.ended or self.beat) - self.began).total_seconds())

    @property
    def per_s(self) -> float | None:
        """Return how many it has settled a second; None where that cannot be told."""
        if not self.is_group:
            return self.pace or None
        settled = self.matched - self.left
        return settled / self.seconds if settled and self.seconds else None

    @property
    def left_s(self) -> float | None:
        """Return how long the rest takes at this pace; None where that cannot be told."""
        return self.left / self.per_s if self.is_carried_out and self.per_s else None

    @property
    def is_well(self) -> bool:
        """Return whether it came to all of its items, and nothing is left of them."""
        return self.outcome == OperationOutcome.DONE and not (self.failed or self.refused or self.left)

    @property
    def state(self) -> str:
        """Return in a few words how it is."""
        if self.outcome is not None:
            return OUTCOMES.get(self.outcome, self.outcome.replace("_", " "))
        if not self.is_carried_out:
            return "nobody carries it out"
        if self.stop_asked_by:
            return "stopping"
        return f"running: {self.phase}" if self.phase else "running"


def why_abandoned(one: OperationReport) -> tuple[str, str]:
    """Return since when nobody carries out an operation that has not ended, and how to go on with it."""
    text = f"nobody carries it out since {one.beat.isoformat(timespec='seconds')}, {one.left:,} are left"
    remedy = f"`projectionist operations take-up {one.number} --reason …`, or stop it"
    if not one.is_group:
        stop = f"`projectionist operations stop {one.number} --reason …`"
        remedy = f"Begin it again, which ends this one (a rebuild goes on where it stood), or {stop}"
    return f"{text}: {one.note}" if one.note else text, remedy


OUTCOMES: dict[str, str] = {
    OperationOutcome.DONE: "done",
    OperationOutcome.NONE_GOT_THROUGH: "stopped by its sample",
    OperationOutcome.UNTRIED: "nobody tried it",
    OperationOutcome.STOPPED: "stopped",
    OperationOutcome.FAILED: "failed",
}


class SampleReport(msgspec.Struct, frozen=True, kw_only=True):
    """One sample of a group of an operation, and what became of it."""

    alike: int
    sample: int
    judged: bool
    consumer: str | None
    items: int
    done: int
    failed: int
    refused: int
    tried: int
    left: int

    @property
    def waiting(self) -> int:
        """Return how many of it have not been touched."""
        return self.items - self.done - self.failed - self.refused - self.tried - self.left


class ItemReport(msgspec.Struct, frozen=True, kw_only=True):
    """An item of an operation that failed again, or was refused."""

    consumer: str | None
    source: str | None
    id: str | None
    incarnation: int | None
    seq: int | None
    """Where an entry of quarantine stands in its stream; None of anything else."""
    key: str | None
    """Of an intent; None of anything else."""
    aggregate: str | None
    state: str
    note: str | None

    @property
    def name(self) -> str:
        """Return what the commands call it."""
        return self.key or str(self.id if self.seq is None else self.seq)
