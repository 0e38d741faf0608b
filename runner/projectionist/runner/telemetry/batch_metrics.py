"""The numbers of a consumer's batches, told once per batch and event type."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from projectionist.core.cloudevents import timestamp
from projectionist.core.states import Cause
from projectionist.core.telemetry import instruments, metrics, names

if TYPE_CHECKING:
    from projectionist.core.settings.settings import BatchLimits as Limits
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.batch.counted_types import CountedTypes
    from projectionist.runner.batch.types import Batch, BatchResult
    from projectionist.runner.decoding.delivery import Delivery


class BatchMetrics:
    """Tells what committed batches of one consumer were like; without a listener nothing is reckoned."""

    def __init__(
        self,
        definition: ConsumerDefinition,
        limits: Limits,
        kinds: CountedTypes,
        sources: Collection[str] = (),
    ) -> None:
        self._limits = limits
        self._kinds = kinds
        self._sources = frozenset(sources)
        self._who = {names.CONSUMER: definition.name}
        self._common = {names.SYSTEM: names.NATS, names.DESTINATION: definition.stream} | self._who

    def note(self, batch: Batch, applied: Sequence[BatchResult]) -> None:
        """Tell of one batch, which may have been settled in parts."""
        if not metrics.on():
            return
        size = len(batch.deliveries) + len(batch.unreadable)
        if size:
            self._note_received(batch)
            metrics.record(instruments.BATCH_SIZE, size, self._who)
        metrics.add(instruments.BATCHES, 1, self._who | {names.REASON: self._reason(batch, size)})
        counts: Counter[tuple[str, str]] = Counter()
        process = self._common | {names.OPERATION: names.PROCESS}
        for one in applied:
            counts.update(one.writes.counts)
            for kind in {kind for kind, _ in one.writes.counts} or {""}:
                metrics.record(instruments.PROCESS_DURATION, one.took_s, process | {names.EVENT_TYPE: kind})
            metrics.record(instruments.COMMIT_DURATION, one.commit_s, self._who)
        for (kind, outcome, source), n in self._by_source(applied).items():
            counts[kind, outcome] -= n
            about = {names.EVENT_TYPE: kind, names.OUTCOME: outcome}
            metrics.add(instruments.EVENTS, n, {**self._from(source), **about})
        for (kind, outcome), n in counts.items():
            if n:
                metrics.add(
                    instruments.EVENTS, n, self._who | {names.EVENT_TYPE: kind, names.OUTCOME: outcome}
                )
        self._note_failures(applied)
        self._note_times(batch, applied)

    def _note_received(self, batch: Batch) -> None:
        found = Counter({"": len(batch.unreadable)} if batch.unreadable else ())
        for kind, n in Counter(map(_type, batch.deliveries)).items():
            found[self._kinds.name(kind)] += n
        common = self._common | {names.OPERATION: names.RECEIVE}
        for kind, n in found.items():
            metrics.add(instruments.CONSUMED, n, common | {names.EVENT_TYPE: kind})

    def _by_source(self, applied: Sequence[BatchResult]) -> Counter[tuple[str, str, str]]:
        """Return what has become of events of the sources that are told apart."""
        found: Counter[tuple[str, str, str]] = Counter()
        for one in applied:
            for (kind, outcome, source), n in one.writes.by_source.items():
                found[self._kinds.name(kind), outcome, source] += n
        return found

    def _from(self, source: str) -> Mapping[str, str]:
        """Return the source as an attribute, where it is one of the few that are told apart."""
        return self._who | {names.EVENT_SOURCE: source} if source in self._sources else self._who

    def _named(self, source: str) -> str:
        return source if source in self._sources else ""

    def _kind(self, delivery: Delivery) -> Hashable:
        return delivery.type, self._named(delivery.source)

    def _note_failures(self, applied: Sequence[BatchResult]) -> None:
        failed = [pair for one in applied for pair in one.writes.failed_again]
        failed += [
            (p.delivery, p.failed) for one in applied for p in one.writes.parked if p.cause is Cause.FAILED
        ]
        counted = Counter(
            (f.error_class or "failed", self._kinds.name(d.type), self._named(d.source)) for d, f in failed
        )
        for (error, kind, source), n in counted.items():
            about = {names.ERROR_TYPE: error, names.EVENT_TYPE: kind}
            metrics.add(instruments.FAILURES, n, {**self._from(source), **about})

    def _reason(self, batch: Batch, size: int) -> str:
        if not size:
            return "time" if batch.foreign else "due"
        if size >= self._limits.max_rows:
            return "rows"
        return "bytes" if sum(len(d.data) for d in batch.deliveries) >= self._limits.max_bytes else "time"

    def _note_times(self, batch: Batch, applied: Sequence[BatchResult]) -> None:
        """Note the oldest and the newest of each type: a record for each event would cost as much as its transport."""
        waits = {id(parked.delivery) for one in applied for parked in one.writes.parked}
        done: list[Delivery] = [d for one in applied for d in one.writes.unparked]
        done += [d for d in batch.deliveries if id(d) not in waits] if waits else batch.deliveries
        now = time.time()
        for delivery in _ends(done, self._kind if self._sources else _type):
            kind = self._kinds.name(delivery.type)
            attributes = {**self._from(delivery.source), names.EVENT_TYPE: kind}
            if delivery.received_us:
                metrics.record(instruments.LATENCY, max(0.0, now - delivery.received_us / 1e6), attributes)
            if delivery.time is not None:
                age = now - timestamp(delivery.time).timestamp()
                metrics.record(instruments.EVENT_AGE, max(0.0, age), attributes)


_type = attrgetter("type")


def _ends(deliveries: Sequence[Delivery], kind_of: Callable[[Delivery], Hashable]) -> Iterable[Delivery]:
    kinds = list(map(kind_of, deliveries))
    for kind, newest in dict(zip(kinds, deliveries, strict=True)).items():
        oldest = deliveries[kinds.index(kind)]
        yield oldest
        if newest is not oldest:
            yield newest
