"""`check_projection(OrderSummary, events=…)`: any history, delivered in any way, gives the same rows and intents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Sized
from copy import copy
from itertools import cycle, islice
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.settings.settings import Policy
from projectionist.projections.compiled.definition import ConsumerDefinition, compiled_of
from projectionist.projections.compiled.view_set import SetDefinition
from projectionist.projections.event import AnyEvent
from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Delivery
from projectionist.testing.event_drafts import EventPlace, arrival_of, drafted, subject_of
from projectionist.testing.lookup_rows import LookupRows
from projectionist.testing.memory_consumer import MemoryConsumer, MemoryView
from projectionist.testing.purity import HandlerWatch
from projectionist.testing.scenario import tested

try:
    from hypothesis import Phase, given, settings
    from hypothesis import strategies as st
    from hypothesis.errors import Flaky
except ImportError as error:
    raise ProjectionistError(
        "check_projection draws histories with Hypothesis, which is not installed",
        remedy="pip install hypothesis",
    ) from error

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from projectionist.core.nats.fast_client import Arrival

__all__ = ["check_projection"]

History: TypeAlias = Sequence[tuple[str, AnyEvent]]
"""Events in their order, each with its aggregate, `type/id`."""
Lookups: TypeAlias = Sequence[LookupRows]
"""The rows that each view looks up."""
EXPECTED = ("Refuse", "Retry")
"""What handlers raise on purpose."""


class DeliverySequence(msgspec.Struct, frozen=True):
    """One way for the events of a history to come."""

    batches: list[list[int]]
    """Their places in the history."""
    poisoned: frozenset[int] = frozenset()
    """Those that fail at first, and are tried again when all else has come."""
    killed: frozenset[int] = frozenset()
    """The batches, by number, in which the process dies before they are committed: they come again."""

    def without(self, left_out: int) -> DeliverySequence:
        """Return the same way for a history that lacks the event of this place: what fails, and where the process
        dies, stays with the events that it is told of."""
        batches = [_moved_up(batch, left_out) for batch in self.batches]
        kept = [number for number, batch in enumerate(batches) if batch]
        return DeliverySequence(
            [batches[number] for number in kept],
            frozenset(_moved_up(self.poisoned, left_out)),
            frozenset(at for at, number in enumerate(kept) if number in self.killed),
        )

    def __str__(self) -> str:
        said = [f"delivered as {' | '.join(', '.join(str(at + 1) for at in one) for one in self.batches)}"]
        said[0] += " (batches by |)"
        if self.poisoned:
            said.append(f"where {', '.join(str(at + 1) for at in sorted(self.poisoned))} failed at first")
        if self.killed:
            said.append(f"and the process died in batch {', '.join(str(n + 1) for n in sorted(self.killed))}")
        return ", ".join(said)


class WrongHistory(msgspec.Struct, frozen=True):
    """Hold a history that shows what is wrong with a consumer."""

    history: History
    text: str
    way: DeliverySequence | None = None
    """How its events have to be delivered for it, where that matters."""


class Deliveries(msgspec.Struct, frozen=True):
    """How the events of a history come; drawn without a look at it, so that both shrink alone."""

    late: list[int]
    """By how many places each comes late, over and over."""
    again: list[int]
    """What comes once more at the end, by its place."""
    sizes: list[int]
    """Of the batches, over and over."""
    lost: list[int]
    """What is lost on its way, and sent again when all else has come, by its place."""
    poisoned: list[int]
    """What fails at first, by its place."""
    killed: list[int]
    """In which batches the process dies."""

    def ways(self, history: History, *, keep_order: bool) -> Iterator[DeliverySequence]:
        """Yield ways for the events to come: last first, all at once, as drawn, and so with failures and deaths.
        `keep_order`: of the events of an aggregate."""
        late, places = self.late or [0], list(range(len(history)))
        lost = _within(self.lost, history) if not keep_order else frozenset()
        drawn = sorted(places, key=lambda at: (at in lost, at + late[at % len(late)]))
        again = [at % len(history) for at in self.again if history]
        for order, sizes in ((places[::-1], [1]), (places, [len(places)]), (drawn, self.sizes or [1])):
            turns = {name: iter([at for at in places if history[at][0] == name]) for name, _ in history}
            kept = [next(turns[history[at][0]]) for at in order] if keep_order else order
            batches = list(_cut([*kept, *again], sizes))
            yield DeliverySequence(batches)
        yield DeliverySequence(batches, _within(self.poisoned, history), _within(self.killed, batches))


PLACES = st.lists(st.integers(0, 9), max_size=3)
DELIVERIES = st.builds(
    Deliveries,
    late=st.lists(st.integers(0, 9), max_size=9),
    again=PLACES,
    sizes=st.lists(st.integers(1, 4), max_size=4),
    lost=PLACES,
    poisoned=PLACES,
    killed=PLACES,
)


def check_projection(
    consumer: type, *, events: SearchStrategy[History], looking_up: Iterable[object] = ()
) -> None:
    """Check a Projection, Reactor or ViewSet with histories that Hypothesis draws: lists of (aggregate, event), in
    their order.

    However they are delivered, twice, late, lost and sent again, mixed with those of other aggregates, one by one or
    many at once; whatever fails at first and is tried again; wherever the process dies and begins anew: the rows have
    to be the same, and each intent there once. AssertionError with the smallest history that shows otherwise, or
    shows a handler that asks the clock or chance, remembers something, changes its event, or raises by mistake.
    `looking_up`: the rows that handlers find in tables they look up.
    """
    definition = _tested(consumer)
    lookup_rows = _lookups(definition, list(looking_up))
    keep_order = definition.sequence == "monotonic"
    shown: list[WrongHistory] = []

    def check(history: History, deliveries: Deliveries) -> None:
        _check_shape(history)
        ways = deliveries.ways(history, keep_order=keep_order)
        if found := _wrong(definition, lookup_rows, history, ways):
            shown.append(found)
            raise AssertionError(found.text)

    # Hypothesis keeps examples by the source of a test, which is one for all consumers; and it would time handlers.
    phases = [one for one in settings().phases if one is not Phase.explain]
    try:
        given(events, DELIVERIES)(settings(database=None, deadline=None, phases=phases)(check))()
    except (AssertionError, Flaky):  # what it remembers may make the second try another one
        if not shown:
            raise
        found = min(shown, key=lambda one: len(one.history))
        found = _smallest(definition, lookup_rows, found)
        raise AssertionError(_report(definition, found)) from None


def _tested(consumer: type) -> ConsumerDefinition:
    found = compiled_of(consumer)
    return found if isinstance(found, SetDefinition) else tested(consumer)


def _lookups(definition: ConsumerDefinition, rows: Sequence[object]) -> list[LookupRows]:
    """Return the rows of each view's lookups. Raises DefinitionError for one that no view looks up."""
    looked_up = [
        {one.row for one in (*view.references, *(found.source for found in view.looks_up))}
        for view in definition.views
    ]
    nobodys = [row for row in rows if not any(type(row) in some for some in looked_up)]
    return [
        LookupRows(view, [*(row for row in rows if type(row) in some), *nobodys])
        for view, some in zip(definition.views, looked_up, strict=True)
    ]


def _check_shape(history: Sequence[object]) -> None:
    """Raise ProjectionistError for what was drawn and is no history."""
    for one in history:
        if not (isinstance(one, tuple | list) and len(one) == 2 and isinstance(one[0], str)):
            raise ProjectionistError(
                f"events= drew {one!r} in a history, which is no aggregate with its event",
                remedy='Draw lists of pairs: st.lists(st.tuples(st.just("order/o-1"), events))',
            )


def _smallest(definition: ConsumerDefinition, lookup_rows: Lookups, found: WrongHistory) -> WrongHistory:
    """Leave out of a history what is not needed to show what is wrong, an event at a time, until each is needed.

    Hypothesis cannot: it draws events and failures apart, and an event that it takes away moves all failures behind it.
    """
    at = len(found.history)
    while at:
        at -= 1
        shorter = [*found.history[:at], *found.history[at + 1 :]]
        ways = [] if found.way is None else [found.way.without(at)]
        if less := _wrong(definition, lookup_rows, shorter, ways):
            found, at = less, len(shorter)
    return found


def _moved_up(places: Iterable[int], left_out: int) -> list[int]:
    return [at - (at > left_out) for at in places if at != left_out]


def _cut(order: list[int], sizes: list[int]) -> Iterator[list[int]]:
    rest = iter(order)
    for size in cycle(sizes):
        if not (batch := list(islice(rest, size))):
            return
        yield batch


def _within(places: Iterable[int], among: Sized) -> frozenset[int]:
    return frozenset(at % len(among) for at in places if len(among))


def _wrong(
    definition: ConsumerDefinition, lookup_rows: Lookups, history: History, ways: Iterable[DeliverySequence]
) -> WrongHistory | None:
    """Return the first thing that is wrong with a history, one by one or delivered in one of these ways."""
    watch, arrivals = HandlerWatch(definition.views), _arrivals(definition, history)
    decoder = Decoder.of(definition, Policy())

    def read(batch: list[int]) -> list[Delivery]:
        return [_read(decoder, arrivals[at]) for at in batch]

    def settled(way: DeliverySequence) -> MemoryConsumer:
        views = [
            MemoryView(view, watch.step, rows)
            for view, rows in zip(definition.views, lookup_rows, strict=True)
        ]
        poisoned = [one.id for one in read(sorted(way.poisoned))]
        consumer = MemoryConsumer(definition, views, poisoned)
        with watch.asking():
            for number, batch in enumerate(way.batches):
                if number in way.killed:
                    copy(consumer).deliver(read(batch))  # what it made is gone with its process
                consumer.deliver(read(batch))
            consumer.mend()
        return consumer

    single = DeliverySequence([[at] for at in range(len(history))])
    first, again = settled(single), settled(single)
    if watch.seen:
        return WrongHistory(history, f"it is not pure: {'; '.join(watch.seen)}")
    if mistake := _mistake(first):
        return WrongHistory(history, mistake)
    if difference := _difference(first, again):
        memory = "it remembers something beside its rows: the same events, once more, gave"
        return WrongHistory(history, f"{memory}\n  {difference}")
    for way in ways:
        if difference := _difference(first, settled(way)):
            return WrongHistory(history, f"{way}, they gave\n  {difference}", way)
    return None


def _mistake(consumer: MemoryConsumer) -> str | None:
    for name, (kind, text) in consumer.failures.items():
        if kind not in EXPECTED:
            return f"event {name} failed: {kind}: {text}"
    return None


def _arrivals(definition: ConsumerDefinition, history: History) -> list[Arrival]:
    """Return each event as a producer writes it, in consecutive versions of its aggregate."""
    versions = Counter[str]()
    begin = definition.baseline - 1 if isinstance(definition.baseline, int) else 0
    arrivals = []
    for seq, (aggregate, event) in enumerate(history, 1):
        versions[aggregate] += 1
        at = EventPlace(aggregate=aggregate, version=begin + versions[aggregate])
        draft = drafted(event, at, subject_of(definition, aggregate))
        arrivals.append(arrival_of(draft, definition.stream, seq))
    return arrivals


def _read(decoder: Decoder, arrival: Arrival) -> Delivery:
    """Read an event as it comes, anew each time."""
    found = decoder.read(arrival)
    assert isinstance(found, Delivery), f"the producer's draft can be read: {found}"
    return found


def _difference(one: MemoryConsumer, other: MemoryConsumer) -> str | None:
    for mine, theirs in zip(one.views, other.views, strict=True):
        if found := _other_rows(mine, theirs):
            return f"{found} of {mine.definition.name}" if len(one.views) > 1 else found
    return _other_intents(one, other)


def _other_rows(one: MemoryView, other: MemoryView) -> str | None:
    table = one.definition.table
    names = [column.name for column in table.columns] if table else []
    for key in sorted({*one.rows, *other.rows}, key=repr):
        left, right = one.rows.get(key), other.rows.get(key)
        if left is None or right is None:
            if left is not right:
                return f"{'a' if left is None else 'no'} row {key!r}"
        elif left != right:
            changed = [
                f"{n} = {b!r}, not {a!r}" for n, a, b in zip(names, left, right, strict=True) if a != b
            ]
            return f"row {key!r} with {', '.join(changed)}"
    return None


def _other_intents(one: MemoryConsumer, other: MemoryConsumer) -> str | None:
    mine, theirs = Counter(one.intents), Counter(other.intents)
    for one_of in [*(theirs - mine), *(mine - theirs)]:
        event, slot, body, due = one_of
        times, when = theirs[one_of], "" if due is None else f" at {due}"
        return (
            f"{times or 'no'} intent{'' if times == 1 else 's'} {slot} {body.decode()}{when} of event {event}"
        )
    if one.failures != other.failures:
        differing = sorted(one.failures.items() ^ other.failures.items())
        return f"another failure: {differing[0][0]}, {': '.join(differing[0][1])}"
    return None


def _report(definition: ConsumerDefinition, found: WrongHistory) -> str:
    lines = [f"  {at}  {aggregate}  {event!r}" for at, (aggregate, event) in enumerate(found.history, 1)]
    return "\n".join([f"{definition.name} and the events", *lines, found.text])
