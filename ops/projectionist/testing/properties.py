"""`check_projection(OrderSummary, events=…)`: any history, delivered in any way, gives the same rows and intents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.settings.settings import Policy
from projectionist.projections.event import AnyEvent
from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Delivery
from projectionist.testing.event_drafts import EventPlace, arrival_of, drafted, subject_of
from projectionist.testing.lookup_rows import LookupRows
from projectionist.testing.memory_consumer import MemoryConsumer
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
    from projectionist.projections.compiled.definition import Definition

__all__ = ["check_projection"]

History: TypeAlias = Sequence[tuple[str, AnyEvent]]
"""Events in their order, each with its aggregate, `type/id`."""
EXPECTED = ("Refuse", "Retry")
"""What handlers raise on purpose."""


class Deliveries(msgspec.Struct, frozen=True):
    """How the events of a history come; drawn without a look at it, so that both shrink alone."""

    late: list[int]
    """By how many places each comes late, over and over."""
    again: list[int]
    """What comes once more at the end, by its place."""
    sizes: list[int]
    """Of the batches, over and over."""

    def batches(self, history: History, *, keep_order: bool) -> Iterator[list[list[int]]]:
        """Yield ways for the events to come, as their places in the history, in batches: last first, all at once, as
        drawn. `keep_order`: of the events of an aggregate."""
        late, places = self.late or [0], list(range(len(history)))
        drawn = sorted(places, key=lambda at: at + late[at % len(late)])
        again = [at % len(history) for at in self.again if history]
        for order, sizes in ((places[::-1], [1]), (places, [len(places)]), (drawn, self.sizes or [1])):
            turns = {name: iter([at for at in places if history[at][0] == name]) for name, _ in history}
            kept = [next(turns[history[at][0]]) for at in order] if keep_order else order
            yield list(_cut([*kept, *again], sizes))


DELIVERIES = st.builds(
    Deliveries,
    late=st.lists(st.integers(0, 9), max_size=9),
    again=st.lists(st.integers(0, 9), max_size=3),
    sizes=st.lists(st.integers(1, 4), max_size=4),
)


def check_projection(
    consumer: type, *, events: SearchStrategy[History], looking_up: Iterable[object] = ()
) -> None:
    """Check a Projection or Reactor with histories that Hypothesis draws: lists of (aggregate, event), in their order.

    However they are delivered, twice, late, mixed with those of other aggregates, one by one or many at once, the rows
    have to be the same, and each intent there once. AssertionError with the smallest history that shows otherwise, or
    shows a handler that asks the clock or chance, remembers something, changes its event, or raises by mistake.
    `looking_up`: the rows that handlers find in tables they look up.
    """
    definition = tested(consumer)
    lookup_rows = LookupRows(definition, looking_up)
    shown: list[tuple[str, History, Deliveries]] = []

    def check(history: History, deliveries: Deliveries) -> None:
        _check_shape(history)
        if wrong := _wrong(definition, lookup_rows, history, deliveries):
            shown.append((wrong, history, deliveries))
            raise AssertionError(wrong)

    # Hypothesis keeps examples by the source of a test, which is one for all consumers; and it would time handlers.
    phases = [one for one in settings().phases if one is not Phase.explain]
    try:
        given(events, DELIVERIES)(settings(database=None, deadline=None, phases=phases)(check))()
    except (AssertionError, Flaky):  # what it remembers may make the second try another one
        if not shown:
            raise
        raise AssertionError(
            _smallest(definition, lookup_rows, *min(shown, key=lambda one: len(one[0])))
        ) from None


def _check_shape(history: Sequence[object]) -> None:
    """Raise ProjectionistError for what was drawn and is no history."""
    for one in history:
        if not (isinstance(one, tuple | list) and len(one) == 2 and isinstance(one[0], str)):
            raise ProjectionistError(
                f"events= drew {one!r} in a history, which is no aggregate with its event",
                remedy='Draw lists of pairs: st.lists(st.tuples(st.just("order/o-1"), events))',
            )


def _smallest(
    definition: Definition, lookup_rows: LookupRows, wrong: str, history: History, deliveries: Deliveries
) -> str:
    """Leave out of a history, one after the other, what is not needed to show what is wrong; return what is then."""
    for at in reversed(range(len(history))):
        shorter = [*history[:at], *history[at + 1 :]]
        if less := _wrong(definition, lookup_rows, shorter, deliveries):
            wrong, history = less, shorter
    return wrong


def _cut(order: list[int], sizes: list[int]) -> Iterator[list[int]]:
    rest = iter(order)
    for size in cycle(sizes):
        if not (batch := list(islice(rest, size))):
            return
        yield batch


def _wrong(
    definition: Definition, lookup_rows: LookupRows, history: History, deliveries: Deliveries
) -> str | None:
    watch, arrivals = HandlerWatch(definition), _arrivals(definition, history)
    decoder = Decoder.of(definition, Policy())

    def settled(batches: list[list[int]]) -> MemoryConsumer:
        consumer = MemoryConsumer(definition, watch.step, lookup_rows)
        with watch.asking():
            for batch in batches:
                consumer.deliver([_read(decoder, arrivals[at]) for at in batch])
        return consumer

    single = [[at] for at in range(len(history))]
    first, again = settled(single), settled(single)
    found = f"it is not pure: {'; '.join(watch.seen)}" if watch.seen else _mistake(first)
    if found is None and (difference := _difference(definition, first, again)):
        found = f"it remembers something beside its rows: the same events, once more, gave\n  {difference}"
    keep_order = definition.sequence == "monotonic"
    for batches in deliveries.batches(history, keep_order=keep_order) if found is None else ():
        if difference := _difference(definition, first, settled(batches)):
            shown = " | ".join(", ".join(str(at + 1) for at in batch) for batch in batches)
            found = f"delivered as {shown} (batches by |), they gave\n  {difference}"
            break
    return None if found is None else _report(definition, history, found)


def _mistake(consumer: MemoryConsumer) -> str | None:
    for name, (kind, text) in consumer.failures.items():
        if kind not in EXPECTED:
            return f"event {name} failed: {kind}: {text}"
    return None


def _arrivals(definition: Definition, history: History) -> list[Arrival]:
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


def _difference(definition: Definition, one: MemoryConsumer, other: MemoryConsumer) -> str | None:
    names = [column.name for column in definition.table.columns] if definition.table else []
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


def _report(definition: Definition, history: History, found: str) -> str:
    lines = [f"  {at}  {aggregate}  {event!r}" for at, (aggregate, event) in enumerate(history, 1)]
    return "\n".join([f"{definition.name} and the events", *lines, found])
