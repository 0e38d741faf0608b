"""Checks all history of a stream dry: each message decoded as consumers would, and what they would fail on.

It asks the stream alone: no tables, no registration. Decisions of operators stand in the database, so an event that
was edited or skipped is told like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from projectionist.core.testpoints import announce
from projectionist.projections.compiled.definition import Kind
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.projections.errors import BadValue
from projectionist.projections.event import schema_of
from projectionist.projections.upcasting import steps_from
from projectionist.runner.batch.consumer import Consumer
from projectionist.runner.batch.handlers import step_of
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.history.lost_events import is_whole
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_reader import scan
from projectionist.runner.preview.check_fold import CheckFold
from projectionist.runner.preview.check_result import (
    MOST_TYPES,
    OTHERS,
    ConsumerCheck,
    FoldCheck,
    StreamCheck,
    TroubleKind,
    TypeCheck,
    UnhandledType,
    sample_of,
)

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.nats.fast_client import Arrival
    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import Definition
    from projectionist.runner.decoding.delivery import Unreadable
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.jetstream.api import StreamInfo

SQL_OF_ITS_OWN = "its handlers run SQL of their own, which needs its tables"
LOOKS_UP = "they look up rows of tables, and no database is asked"


async def check_events(
    client: Client,
    definitions: Sequence[Definition],
    settings: Settings,
    progress: Progress,
    *,
    first: int = 1,
    fold: bool = False,
    reveal: bool = False,
) -> StreamCheck:
    """Read a stream once, from sequence `first` on, as all these consumers of it would; `fold`: run handlers too."""
    name = definitions[0].stream
    stream = await api.stream(client, name)
    begin, end = max(first, stream.state.first_seq), stream.state.last_seq
    found = StreamCheck(stream=name, first=begin, last=end, whole=is_whole(stream, 1))
    checks = [_check(one, settings, stream, fold=fold, reveal=reveal) for one in definitions]
    found.consumers = [check.result for check in checks]
    subjects = Subjects([text for one in definitions for text in one.subjects.texts])
    progress.begin("checking", max(0, end - begin + 1))
    async for block in scan(client, name, subjects.filter, begin, end):
        for arrival in block:
            for check in checks:
                check.take(arrival)
        found.messages += len(block)
        announce("events.checked")
        await checkpoint()
        await progress.advance(len(block))
    for check in checks:
        await check.finish(progress)
    found.unhandled = list(_unhandled(found.consumers))
    return found


def _check(
    definition: Definition, settings: Settings, stream: StreamInfo, *, fold: bool, reveal: bool
) -> DryConsumer:
    consumer = Consumer.of_view(definition, settings.policy(definition.consumer), 0, definition.name)
    made = DryConsumer(consumer, reveal=reveal)
    if fold and definition.kind is Kind.SQL:
        made.result.not_folded = SQL_OF_ITS_OWN
    elif fold and (definition.references or definition.looks_up):
        made.result.not_folded = LOOKS_UP
    elif fold:
        made.fold_too(stream.state.messages)
    return made


def _unhandled(consumers: Iterable[ConsumerCheck]) -> Iterable[UnhandledType]:
    """Yield types that nobody takes; consumers whose subjects differ meet different numbers of them."""
    types = [one for consumer in consumers for one in consumer.types]
    handled = {one.type for one in types if one.event is not None}
    nobodys: dict[tuple[str, int], TypeCheck] = {}
    for one in types:
        known = nobodys.get((one.type, one.schema))
        if one.type not in {*handled, OTHERS} and (known is None or known.messages < one.messages):
            nobodys[one.type, one.schema] = one
    for each in nobodys.values():
        yield UnhandledType(each.type, each.schema, each.messages, each.first)


class DryConsumer:
    """One consumer that reads a stream, and neither keeps nor makes anything."""

    def __init__(self, consumer: Consumer, *, reveal: bool) -> None:
        """Take a consumer, which need not be registered."""
        self._definition = consumer.view.definition
        self._consumer = consumer
        self._read = consumer.reader.read
        self._own = consumer.view.owned()
        self._reveal = reveal
        self._types: dict[tuple[str, int], TypeCheck] = {}
        self._fold: CheckFold | None = None
        self.result = ConsumerCheck(consumer=consumer.view.definition.name)

    def fold_too(self, messages: int) -> None:
        """Run the handlers too, over a stream of so many messages."""
        self.result.fold = FoldCheck()
        self._fold = CheckFold(self._consumer, messages, self.result.fold, self._handler_failed)

    def take(self, arrival: Arrival) -> None:
        """Take one message; one under a subject of others is passed over."""
        one = self._read(arrival)
        if one is None:
            return
        self.result.messages += 1
        if not isinstance(one, Delivery):
            self._unreadable(one)
            return
        check = self._type(one)
        check.messages += 1
        kind = TroubleKind.BODY
        if one.problem is None and (wrong := self._wrong_key(one)) is not None:
            kind, one.problem = TroubleKind.KEY, wrong
        if one.problem is not None:
            check.troubles.note(kind, one.problem, sample_of(one, reveal=self._reveal))
        if self._fold is not None:
            self._fold.take(one)

    async def finish(self, progress: Progress) -> None:
        """Fold what was put on disk, and count."""
        if self._fold is not None:
            await self._fold.finish(progress)

    def _type(self, one: Delivery) -> TypeCheck:
        place = (one.type, one.schema)
        check = self._types.get(place) or self._types.get((OTHERS, 0))
        if check is None:
            full = len(self._types) >= MOST_TYPES
            check = (
                TypeCheck(type=OTHERS, schema=0, first=sample_of(one, reveal=self._reveal))
                if full
                else self._begun(one)
            )
            self._types[check.type, check.schema] = check
            self.result.types.append(check)
        return check

    def _begun(self, one: Delivery) -> TypeCheck:
        check = TypeCheck(type=one.type, schema=one.schema, first=sample_of(one, reveal=self._reveal))
        handler = self._definition.handlers.get(one.type)
        if handler is None:
            return check
        event, newest = handler.event, schema_of(handler.event)
        check.event = f"{event.__module__}.{event.__qualname__}"
        check.upcasters = steps_from(event, one.type, one.schema)
        reached = one.schema + len(check.upcasters)
        if one.schema > newest:
            check.lacks = f"this code knows schema {newest}"
        elif reached < newest:
            check.lacks = f"there is no step from schema {reached} to {reached + 1}"
        return check

    def _wrong_key(self, one: Delivery) -> str | None:
        """Return why an event has no row; the first of a type of aggregates decides whose ids are keys."""
        step = step_of(self._definition, one.seq, one)
        if step is None:
            return None
        if isinstance(step.key, Exception):
            return str(step.key)
        try:
            self._own.check(step.handler, one.aggregate)
        except BadValue as bad:
            return str(bad)
        self._own.decide(step.handler, one)
        return None

    def _handler_failed(self, one: Delivery, text: str) -> None:
        self._type(one).troubles.note(TroubleKind.HANDLER, text, sample_of(one, reveal=self._reveal))

    def _unreadable(self, one: Unreadable) -> None:
        known = next(
            (each for each in self.result.unreadable.listed if each.text.startswith(f"{one.reason}: ")), None
        )
        text = f"{one.reason}: {one.detail}" if known is None else known.text
        self.result.unreadable.note(TroubleKind.UNREADABLE, text, sample_of(one, reveal=self._reveal))
