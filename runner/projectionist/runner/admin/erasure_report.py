"""Says what an erase touches or has touched, and what is left of it elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.printable_text import join_first

NAMED = 20
"""So many sequences of a stream are named; the JSON document names all."""
ELSEWHERE = (
    "backups, standbys and copies of this database and of its archive keep what they hold until they are replaced",
    "logs and traces are not ours to change: payloads are kept out of them, look up what handlers wrote there",
)


class CannotErase(ProjectionistError):
    """Something stands in the way of an erase. Nothing was changed, or what was is complete in itself."""


class EraseTarget(msgspec.Struct, frozen=True):
    """The thing to be erased: an aggregate (`type/id`), or one event by its identity."""

    aggregate: str | None = None
    source: str | None = None
    id: str | None = None

    @property
    def arguments(self) -> tuple[str | None, str | None, str | None]:
        """Return what statements take."""
        return self.aggregate, self.source, self.id

    def __str__(self) -> str:
        return self.aggregate if self.aggregate is not None else f"{self.source}/{self.id}"


class ErasedConsumer(msgspec.Struct):
    """The part of an erase that is about one consumer."""

    consumer: str
    touched: dict[str, int]
    """Rows by table."""
    rows: str = ""
    """What becomes of the rows of its read model."""
    kept: Sequence[int] = ()
    """Kept generations, which go."""


class StreamPlaces(msgspec.Struct):
    """The messages that a stream holds of it."""

    stream: str
    sequences: list[int]
    unsettled: list[int]
    """Those that a consumer has not settled: they are left, or its aggregate would wait for them."""
    deleted: int = 0


class Erasure(msgspec.Struct):
    """The result of an erase, or what it would be."""

    target: str
    consumers: list[ErasedConsumer]
    recorded: int = 0
    """Intents of producers: events recorded through the outbox, and others."""
    archived: int = 0
    files: int = 0
    """Files of the archive that were written anew."""
    streams: list[StreamPlaces] = []
    providers: Mapping[str, int] = {}
    undone: list[str] = []
    """What has to be done by somebody, or once more."""

    @property
    def unsettled(self) -> bool:
        """Return whether a stream holds messages that a consumer has not settled."""
        return any(one.unsettled for one in self.streams)

    @property
    def remains(self) -> list[str]:
        """Return what is left, and what can be done about it."""
        return [*self.undone, *map(_in_stream, self._held), *self._sent, *ELSEWHERE]

    @property
    def _held(self) -> list[StreamPlaces]:
        return [one for one in self.streams if len(one.sequences) > one.deleted]

    @property
    def _sent(self) -> list[str]:
        return [
            f"provider {name} was sent {count:,} intents: have it delete what it keeps of them"
            for name, count in self.providers.items()
        ]


def _in_stream(one: StreamPlaces) -> str:
    left = one.unsettled if one.deleted else one.sequences
    named = join_first([str(seq) for seq in left], NAMED)
    waits = (
        f"; {len(one.unsettled):,} of them are not settled yet: erase again when they are"
        if one.unsettled
        else ""
    )
    return (
        f"stream {one.stream} holds {len(left):,} messages (sequences {named}){waits}. Delete them with --stream, or "
        f"one by one with `nats stream rmm {one.stream} SEQUENCE`: a consumer that is registered later then meets a gap"
    )
