"""Runs a consumer's handlers over history in memory, without tables: rows begin with nothing, and are forgotten.

Versions are folded in their order, each once. What is larger than memory goes over temporary files, by row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from anyio.lowlevel import checkpoint

from projectionist.projections.folding.fold import fold
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.batch.handlers import step_of
from projectionist.runner.batch.planning import MONOTONIC, UNORDERED
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.history.applied_filter import AggregateProgress, AppliedFilter
from projectionist.runner.history.fold_pace import MOST_BUCKETS
from projectionist.runner.history.spill_files import Buckets, Spill
from projectionist.runner.rebuild.build_state import ROWS_AT_ONCE

if TYPE_CHECKING:
    from projectionist.projections.folding.step import Step
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.preview.check_result import FoldCheck

CHUNK = 1_000
NO_CAP = 2**63
Failed = Callable[[Delivery, str], None]


class CheckFold:
    """Given the events of one consumer in the order of the stream, those that nobody handles too: versions count."""

    def __init__(self, consumer: Consumer, messages: int, result: FoldCheck, failed: Failed) -> None:
        """Take the consumer and how many messages there are at most; `failed` is told of each failure of a handler."""
        definition = consumer.view.definition
        self._definition = definition
        self._reader = consumer.reader
        self._begins_anywhere = definition.baseline == "any"
        self._start = consumer.start
        self._tracks: dict[str, AggregateProgress] = {}
        self._judge = AppliedFilter(definition.sequence, self._tracks, Decisions())
        self._ends: dict[str, int] = {}
        """The version at which an aggregate fails."""
        self._rows: dict[Any, tuple[Any, ...]] = {}
        self._chunk: list[Delivery] = []
        self._failed = failed
        self._intents: Counter[str] = Counter()
        self._result = result
        buckets = min(-(-messages // ROWS_AT_ONCE), MOST_BUCKETS) if definition.table else 1
        self._buckets = Buckets(definition, buckets)
        self._spill = Spill(buckets, []) if buckets > 1 else None
        self._bucket: int | None = None
        self._again = 0
        """How many of those that have gathered were counted in another bucket."""

    def take(self, delivery: Delivery) -> None:
        """Fold an event when its turn comes; one with a problem is its aggregate's end."""
        for one in self._judged(delivery):
            if self._is_blocked(one):
                self._result.blocked += 1
            elif one.problem is not None:
                self._end(one)
            elif one.event is not None:
                self._put(one)

    async def finish(self, progress: Progress) -> None:
        """Fold the rest, bucket by bucket where it was put on disk."""
        self._run()
        if self._spill is not None:
            with self._spill as spill:
                progress.begin("running handlers", len(spill.open))
                for bucket in spill.open:
                    await self._fold_bucket(spill, bucket)
                    await progress.advance(1)
        else:
            self._forget_rows()
        self._result.held_aggregates = self._judge.held_aggregates
        self._result.intents = dict(sorted(self._intents.items()))

    def _judged(self, delivery: Delivery) -> Sequence[Delivery]:
        """Return the events whose turn has come."""
        sequence = self._definition.sequence
        if sequence == UNORDERED:
            return (delivery,)
        aggregate, version = delivery.aggregate or "", delivery.version or 0
        track = self._tracks.get(aggregate)
        if track is None:
            begun = version - 1 if self._begins_anywhere else self._start
            track = self._tracks[aggregate] = AggregateProgress(begun, NO_CAP)
        if sequence == MONOTONIC:
            is_next, track.at = version > track.at, max(version, track.at)
            return (delivery,) if is_next else ()
        return (delivery,) if self._judge.next(delivery) else self._judge.take(delivery)

    def _is_blocked(self, one: Delivery) -> bool:
        end = self._ends.get(one.aggregate or "")
        return end is not None and (one.version or 0) > end

    def _end(self, one: Delivery) -> None:
        if self._definition.sequence != UNORDERED:
            self._ends.setdefault(one.aggregate or "", one.version or 0)

    def _put(self, one: Delivery) -> None:
        if self._spill is None:
            self._chunk.append(one)
            if len(self._chunk) >= CHUNK:
                self._run()
            return
        step = step_of(self._definition, one.seq, one)
        assert step is not None, "it has an event"
        assert one.arrival is not None, "it was read from the stream"
        for bucket in self._buckets.of_event(step.key):
            self._spill.put(bucket, one.arrival)

    async def _fold_bucket(self, spill: Spill, bucket: int) -> None:
        self._bucket = bucket
        for arrival in spill.read(bucket):
            one = self._reader.read(arrival)
            assert isinstance(one, Delivery), "it was read before"
            if self._is_blocked(one):
                self._result.blocked += 1
                continue
            self._chunk.append(one)
            if len(self._chunk) >= CHUNK:
                self._run()
                await checkpoint()
        self._run()
        self._forget_rows()

    def _run(self) -> None:
        """Run the handlers over what has gathered."""
        chunk, self._chunk, self._again = self._chunk, [], 0
        steps = [
            self._within(step)
            for at, one in enumerate(chunk)
            if (step := step_of(self._definition, at, one)) is not None
        ]
        folded = fold(self._definition, steps, self._rows)
        for key, row in folded.rows.items():
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row
        for failure in folded.failures.values():
            one = chunk[failure.step.index]
            if self._ends.get(one.aggregate or "") != one.version or one.version is None:  # in another bucket
                self._failed(one, f"{failure.error_class}: {failure.message}")
            self._end(one)
        blocked = sum(map(self._is_blocked, chunk)) if folded.failures else 0
        self._result.blocked += blocked
        self._result.events += len(chunk) - self._again - blocked - len(folded.failures)
        self._intents.update(one.counted for _, one in folded.intents)

    def _within(self, step: Step) -> Step:
        """Leave to a step the rows of the bucket that is folded; it is counted in the first of its buckets."""
        if self._spill is not None and self._bucket is not None and step.handler.several:
            self._again += self._buckets.of_event(step.key)[0] != self._bucket
            step.key = self._buckets.within(step.key, self._bucket)
        return step

    def _forget_rows(self) -> None:
        self._result.rows += len(self._rows)
        self._rows = {}
