"""A walk over a stream: which versions of each aggregate are missing, and which belong to two events.

Two passes, so that memory grows with aggregates and irregularities alone: the first counts versions, the second looks
again at those that came more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_reader import scan

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.decoding.delivery import Unreadable
    from projectionist.runner.history.progress import Progress

Place = tuple[str, int]
"""An aggregate and a version."""


class MissingRange(msgspec.Struct, frozen=True):
    """Versions that the stream does not hold, though it holds a later one."""

    aggregate: str
    first: int
    last: int


class VersionClaim(msgspec.Struct, frozen=True):
    """A claim to a version."""

    seq: int
    source: str
    id: str
    hash: bytes


class Reuse(msgspec.Struct, frozen=True):
    """One version of an aggregate, claimed by different events."""

    aggregate: str
    version: int
    events: list[VersionClaim]


class AuditResult(msgspec.Struct):
    """The findings of a walk."""

    consumer: str
    stream: str
    first: int
    last: int
    events: int = 0
    aggregates: int = 0
    repeats: int = 0
    """Versions that came again, as the same event."""
    unversioned: int = 0
    unreadable: int = 0
    late_beginnings: int = 0
    """Aggregates whose first version here is not 1."""
    holes: list[MissingRange] = []
    reused: list[Reuse] = []


class AggregateVersions:
    """The versions of each aggregate as they come, in any order."""

    def __init__(self) -> None:
        self._top: dict[str, int] = {}
        """Up to where nothing is missing."""
        self._beyond: dict[str, set[int]] = {}
        self.again: set[Place] = set()

    def __len__(self) -> int:
        return len(self._top)

    def take(self, aggregate: str, version: int) -> None:
        """Take one more event."""
        top, beyond = self._top.get(aggregate, 0), self._beyond.get(aggregate)
        if version <= top or (beyond is not None and version in beyond):
            self.again.add((aggregate, version))
        elif version > top + 1:
            self._beyond.setdefault(aggregate, set()).add(version)
        else:
            top = version
            while beyond and top + 1 in beyond:
                top += 1
                beyond.remove(top)
            if beyond is not None and not beyond:
                del self._beyond[aggregate]
        self._top[aggregate] = top

    def late(self) -> int:
        """Return how many aggregates begin later than at 1."""
        return sum(1 for aggregate in self._beyond if not self._top[aggregate])

    def holes(self) -> Iterator[MissingRange]:
        """Return what is missing, by aggregate."""
        for aggregate in sorted(self._beyond):
            expected = self._top[aggregate] + 1
            for version in sorted(self._beyond[aggregate]):
                if version > expected:
                    yield MissingRange(aggregate, expected, version - 1)
                expected = version + 1


def reused(claims: Iterable[tuple[Place, VersionClaim]]) -> tuple[list[Reuse], int]:
    """Return those of the claims that contradict each other; and how many only repeat the first."""
    by_place: dict[Place, list[VersionClaim]] = {}
    repeats = 0
    for place, event in claims:
        known = by_place.setdefault(place, [])
        if any((one.source, one.id, one.hash) == (event.source, event.id, event.hash) for one in known):
            repeats += 1
        else:
            known.append(event)
    found = [
        Reuse(aggregate, version, events)
        for (aggregate, version), events in sorted(by_place.items())
        if len(events) > 1
    ]
    return found, repeats


def _count(one: Delivery | Unreadable, versions: AggregateVersions, result: AuditResult) -> None:
    result.events += 1
    if not isinstance(one, Delivery):
        result.unreadable += 1
    elif one.aggregate is None or one.version is None:
        result.unversioned += 1
    else:
        versions.take(one.aggregate, one.version)


def _claim(
    one: Delivery | Unreadable, versions: AggregateVersions, claims: list[tuple[Place, VersionClaim]]
) -> None:
    if isinstance(one, Delivery) and (one.aggregate, one.version) in versions.again:
        place = (one.aggregate or "", one.version or 0)
        claims.append((place, VersionClaim(one.seq, one.source, one.id, one.hash)))


async def walk(
    client: Client,
    definition: ConsumerDefinition,
    settings: Settings,
    progress: Progress,
    *,
    first: int = 1,
    last: int | None = None,
) -> AuditResult:
    """Walk the stream of a consumer, as that reads it, from sequence to sequence."""
    stream = await api.stream(client, definition.stream)
    begin = max(first, stream.state.first_seq)
    end = min(last or stream.state.last_seq, stream.state.last_seq)
    result = AuditResult(consumer=definition.name, stream=definition.stream, first=begin, last=end)
    reader = Decoder.of(definition, settings.policy(definition.name))
    versions = AggregateVersions()
    claims: list[tuple[Place, VersionClaim]] = []

    async def each(phase: str, take: Callable[[Delivery | Unreadable], None]) -> None:
        progress.begin(phase, max(0, end - begin + 1))
        async for block in scan(client, definition.stream, definition.subjects.filter, begin, end):
            for one in map(reader.read, block):
                if one is not None:
                    take(one)
            await progress.advance(len(block))

    await each("counting versions", lambda one: _count(one, versions, result))
    if versions.again:
        await each("comparing what came again", lambda one: _claim(one, versions, claims))
    result.aggregates, result.late_beginnings = len(versions), versions.late()
    result.holes = list(versions.holes())
    result.reused, result.repeats = reused(claims)
    return result
