"""What a check of a stream has found, in bounded memory: kinds of trouble are counted, with the first event of each."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from projectionist.runner.decoding.delivery import Delivery, Unreadable

MOST_TYPES = 1_000
"""So many types, each with its schema, are told apart; whoever publishes may invent any number."""
OTHERS = "*"
"""What stands for the type of all that are not told apart."""
MOST_TROUBLES = 20
"""So many kinds of trouble are told apart in one place."""
SHOWN = 2_000
"""So much of a payload is shown."""


class TroubleKind(StrEnum):
    """What goes wrong with a message."""

    UNREADABLE = "unreadable"
    """Live would put it into quarantine."""
    BODY = "body"
    KEY = "key"
    HANDLER = "handler"


class EventSample(msgspec.Struct, frozen=True):
    """The first event of its kind; `payload` is there for those alone who have it revealed."""

    seq: int
    subject: str
    source: str | None
    id: str | None
    aggregate: str | None
    version: int | None
    size: int
    payload: str | None = None


class Trouble(msgspec.Struct):
    """One kind of trouble."""

    kind: TroubleKind
    text: str
    count: int
    first: EventSample


class Troubles(msgspec.Struct):
    """The trouble in one place."""

    listed: list[Trouble] = []
    more: int = 0
    """Events with trouble of yet another kind, when enough kinds were listed."""

    def note(self, kind: TroubleKind, text: str, sample: EventSample) -> None:
        """Count one more. Texts that differ are kinds of their own."""
        for known in self.listed:
            if (known.kind, known.text) == (kind, text):
                known.count += 1
                return
        if len(self.listed) < MOST_TROUBLES:
            self.listed.append(Trouble(kind, text, 1, sample))
        else:
            self.more += 1

    @property
    def count(self) -> int:
        """Return how many events are in trouble."""
        return self.more + sum(one.count for one in self.listed)


class TypeCheck(msgspec.Struct):
    """One type of events in one schema, as a consumer reads it."""

    type: str
    schema: int
    first: EventSample
    messages: int = 0
    event: str | None = None
    """The class that it is read as; None: no handler of this consumer takes it."""
    upcasters: list[str] = []
    """The steps from its schema to that of the class."""
    lacks: str | None = None
    """Why there is no way from its schema to that of the class."""
    troubles: Troubles = msgspec.field(default_factory=Troubles)


class FoldCheck(msgspec.Struct):
    """What the handlers made of the history."""

    events: int = 0
    rows: int = 0
    blocked: int = 0
    """Events behind one that fails: live would park them."""
    held_aggregates: int = 0
    """Aggregates of which the stream lacks a version: what comes behind it was not folded."""
    intents: dict[str, int] = {}
    """What handlers asked for, by slot; nothing of it was made."""


class ConsumerCheck(msgspec.Struct):
    """What one consumer would make of a stream."""

    consumer: str
    messages: int = 0
    types: list[TypeCheck] = []
    """One is called `*` if there are too many: it has all others."""
    unreadable: Troubles = msgspec.field(default_factory=Troubles)
    fold: FoldCheck | None = None
    not_folded: str | None = None
    """Why the handlers did not run, where that was asked for."""

    @property
    def troubled(self) -> int:
        """Return how many messages this consumer would fail on."""
        return self.unreadable.count + sum(one.troubles.count for one in self.types)


class UnhandledType(msgspec.Struct, frozen=True):
    """A type of events that none of the consumers handles."""

    type: str
    schema: int
    messages: int
    first: EventSample


class StreamCheck(msgspec.Struct):
    """The result of reading one stream."""

    stream: str
    first: int
    last: int
    whole: bool
    """Whether it holds every message from its first on."""
    messages: int = 0
    consumers: list[ConsumerCheck] = []
    unhandled: list[UnhandledType] = []

    @property
    def troubled(self) -> bool:
        """Return whether any consumer would fail on any message."""
        return any(one.troubled for one in self.consumers)


def sample_of(one: Delivery | Unreadable, *, reveal: bool) -> EventSample:
    """Return a message as an example."""
    return EventSample(
        seq=one.seq,
        subject=one.subject,
        source=one.source,
        id=one.id,
        aggregate=one.aggregate,
        version=one.version,
        size=len(one.data),
        payload=one.data[:SHOWN].decode("utf-8", "backslashreplace") if reveal else None,
    )
