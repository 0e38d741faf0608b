"""What a process keeps of a consumer from batch to batch. All sessions of the consumer share one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.runner.batch.batch_spans import BatchTracer
from projectionist.runner.batch.counted_types import CountedTypes
from projectionist.runner.batch.failure_evidence import ConsumerProgress
from projectionist.runner.batch.intents import IntentFactories
from projectionist.runner.batch.parked_rows import ParkedDecoder
from projectionist.runner.batch.position_cache import PositionCache
from projectionist.runner.batch.times import USUAL, BatchTimes

if TYPE_CHECKING:
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.decoding.delivery import Delivery


class BatchContext:
    """One consumer in one process: what its batches have found out, and what they need again."""

    def __init__(
        self,
        consumer: Consumer,
        tracer: BatchTracer | None = None,
        sources: Iterable[str] = (),
        *,
        times: BatchTimes = USUAL,
    ) -> None:
        self.consumer, self.times = consumer, times
        self.sources = frozenset(sources)
        """Those that are told apart where events are counted for metrics."""
        self.tracer = tracer or BatchTracer(consumer.definition)
        self.parking = ParkedDecoder(consumer.definition.stream, consumer.reader)
        self.positions = PositionCache()
        """Those that are known to exist."""
        self.types = CountedTypes(consumer.definition.known)
        self.intents = IntentFactories(consumer)
        self.progress = ConsumerProgress(times.patience_s)
        self.witness: tuple[str, str, int] | None = None
        """Source, id and sequence of an event that the last commit has settled: a database without is an older one."""
        self._stand = consumer.control.stand
        self._batches = 0

    def next_batch(self) -> int:
        """Return a number for a batch that no other process uses."""
        self._batches += 1
        return self.consumer.runner << 32 | self._batches

    def follow(self) -> None:
        """Forget the positions that were seen before the control row changed: the rows may have gone."""
        if self._stand != self.consumer.control.stand:
            self._stand = self.consumer.control.stand
            self.positions.clear()

    def committed(self, fresh: list[Delivery], moved: Iterable[str]) -> None:
        """Remember what a commit has settled, and which positions it wrote."""
        if fresh:
            self.witness = fresh[-1].source, fresh[-1].id, fresh[-1].seq
        self.positions.add(moved)
