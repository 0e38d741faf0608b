"""Looks for the missing versions of one aggregate in its stream: what is there, and where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from projectionist.core.cloudevents import HeaderError
from projectionist.projections.compiled.subject_pattern import AGGREGATE
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.decoding.header_parser import Heads
from projectionist.runner.gaps.diagnosis import MissingVersions, OtherSubject

if TYPE_CHECKING:
    from projectionist.projections.compiled.subject_pattern import Subjects
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.jetstream.message_lookup import Stored

MOST_READ = 10_000
"""How many messages one step reads; a longer subject takes several."""
MOST_BYTES = 2 * 1024 * 1024
"""How much one step brings; the rest is fetched when this has been drained."""
MOST_PROBED = 1_000


class SearchResult(msgspec.Struct):
    """The yield of one step."""

    found: list[Delivery]
    resume: int
    """The sequence to go on from."""
    ended: bool
    """Whether the stream was read to its end."""


def subject_of(lack: MissingVersions, subjects: Subjects) -> str | None:
    """Return the subject that holds the aggregate's events, whether the stream takes it now or not; None where it
    cannot be built."""
    kind, _, name = lack.aggregate.partition("/")
    return subjects.subject_for(kind, name)


async def search(
    stored: Stored, consumer: Consumer, lack: MissingVersions, subject: str, resume: int
) -> SearchResult:
    """Read the subject from `resume` on, until all missing versions are there, or to its end, or to the limits."""
    found: dict[int, Delivery] = {}
    size, seq = 0, resume
    for _ in range(MOST_READ):
        message = await stored.first(subject, seq)
        if message is None:
            return SearchResult(list(found.values()), seq, ended=True)
        seq = message.seq + 1
        delivery = consumer.reader.reread(message.arrival(), message.seq)
        if isinstance(delivery, Delivery) and _is_missing(lack, delivery):
            # Of two that claim one version the first stands, as it would have when they were delivered.
            found.setdefault(delivery.version or 0, delivery)
            size += len(delivery.data)
            if len(found) == lack.count or size > MOST_BYTES:
                break
    return SearchResult(list(found.values()), seq, ended=False)


def _is_missing(lack: MissingVersions, delivery: Delivery) -> bool:
    return delivery.aggregate == lack.aggregate and lack.misses(delivery.version)


async def search_other_subjects(
    stored: Stored, consumer: Consumer, lack: MissingVersions
) -> OtherSubject | None:
    """Find a missing version on another subject with the aggregate's token at the same place, if there is one near."""
    heads = Heads(consumer.policy.headers)
    for subject in _widened(consumer.definition.subjects, lack):
        seq = lack.seq + 1
        for _ in range(MOST_PROBED):
            message = await stored.first(subject, seq)
            if message is None:
                break
            seq = message.seq + 1
            if consumer.definition.subjects.reads(message.subject):
                continue
            version = _version(heads, message.hdrs, lack, consumer.policy.aggregate_type or "")
            if lack.misses(version):
                return OtherSubject(version or 0, message.seq, message.subject)
    return None


def _widened(subjects: Subjects, lack: MissingVersions) -> list[str]:
    """Return subjects like the aggregate's own with every other token open, of the same length or longer."""
    kind, _, name = lack.aggregate.partition("/")
    widened = set()
    for pattern in subjects.patterns:
        own = pattern.subject_for(kind, name)
        if own is not None:
            places = zip(own.split("."), pattern.text.split("."), strict=True)
            tokens = ".".join(token if place == AGGREGATE else "*" for token, place in places)
            widened |= {tokens, f"{tokens}.>"}
    return sorted(widened)


def _version(heads: Heads, head: bytes | None, lack: MissingVersions, kind: str) -> int | None:
    """Return the version that a message claims for the aggregate, going by its headers alone."""
    try:
        _, _, _, _, kind_of, name_of, version, *_ = heads.read(head)
    except HeaderError:
        return None
    _, _, name = lack.aggregate.partition("/")
    named = f"{kind if kind_of is None else kind_of}/{name if name_of is None else name_of}"
    if named != lack.aggregate or version is None or not (version.isascii() and version.isdigit()):
        return None
    return int(version) if len(version) <= 19 else None
