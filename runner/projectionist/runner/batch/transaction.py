"""The batch transaction: claim, judge, fold, write, commit. Every step a function, read top to bottom.

The order of its statements is what keeps two of them from waiting for each other in a circle: barrier, claims in
order of identities, placeholders and positions in order of aggregates, rows in order of keys, then only rows that
nobody else may touch, and at last the append-only tables in stream order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from projectionist.core.printable_text import storable
from projectionist.core.states import InboxState, IncidentKind
from projectionist.core.testpoints import announce
from projectionist.projections.folding.version_verdict import Verdict
from projectionist.runner.batch.batch_writer import BatchWriter
from projectionist.runner.batch.conflicts import contradict, judge_old, late, reuse, reused_identity
from projectionist.runner.batch.dedupe import intake, without
from projectionist.runner.batch.intents import stage_intents
from projectionist.runner.batch.outcomes import record_outcome
from projectionist.runner.batch.parked_rows import ParkedRun, parked_runs
from projectionist.runner.batch.past_decisions import PastDecisions, decided
from projectionist.runner.batch.planning import (
    UNORDERED,
    AggregatePlan,
    LockedPosition,
    alone,
    may_move,
    plan_aggregate,
    put_by,
    reach,
    stored,
)
from projectionist.runner.batch.retry_policy import MOST_TEXT, FailureReason
from projectionist.runner.batch.types import BatchResult
from projectionist.runner.batch.writes import Again, BatchWrites

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.outbox.intents.schedule import Emitted
    from projectionist.runner.batch.batch_session import BatchSession
    from projectionist.runner.batch.batch_spans import BatchSpans
    from projectionist.runner.batch.context import BatchContext
    from projectionist.runner.batch.handlers import FoldedBatch, Model
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.batch.outcomes import FailedAt
    from projectionist.runner.batch.sequencing import BatchOrder
    from projectionist.runner.batch.types import Batch
    from projectionist.runner.batch.view import View
    from projectionist.runner.decoding.delivery import Delivery


DRAIN_BYTES = 16 * 1024 * 1024
"""How much of parked events one transaction holds at most, beside one event an aggregate."""
DRAIN_EVENTS = 10_000
"""How many of them: one that a thousand heads drain at once would outlast the session, and then once more."""


class BatchAttempt:
    """One run of a batch on one session; where it fails, what is known of how far it came."""

    def __init__(self, context: BatchContext, session: BatchSession) -> None:
        self._context = context
        self._session = session
        self._begun = time.monotonic()
        self.model: Model | None = None
        """Which handlers it ran; None: there was no session to run on."""

    async def run(self, batch: Batch, batch_order: BatchOrder) -> BatchResult:
        """Run it; raises whatever keeps it from being committed."""
        store, self.model = await self._session.ready()
        async with self._session.unblocking():
            applied = await Transaction(self._context, store, self.model, batch, batch_order).run()
        self._session.well()
        return applied

    @property
    def lasted_s(self) -> float:
        """Return for how long it has run."""
        return time.monotonic() - self._begun


class Transaction:
    """One run of one batch; nothing in it outlives the run."""

    def __init__(
        self, context: BatchContext, store: InboxStore, model: Model, batch: Batch, batch_order: BatchOrder
    ) -> None:
        self.context = context
        self.consumer = context.consumer
        self.store = store
        self.model = model
        self.batch = batch
        self.batch_order = batch_order
        self.number = context.next_batch()
        self.incarnation = 0
        self.released: Sequence[Delivery] = ()
        self.decided: PastDecisions | None = None
        self.writes = BatchWrites(context.sources)

    async def run(self) -> BatchResult:
        """Settle the batch; raises Again where it must be run anew, Superseded or Paused where it must not be."""
        await self.batch_order.begin()
        try:
            return await self._run()
        finally:
            self.batch_order.over()

    async def _run(self) -> BatchResult:
        begun_ns, begun = time.time_ns(), time.monotonic()
        async with self.store.connection.transaction():
            fresh = await self._claim(await self._enter())
            self.batch_order.claimed()
            announce("batch.claimed")
            await self.batch_order.lock()
            courses = await self._judge(fresh)
            self.batch_order.locked()
            announce("batch.judged")
            folded = await self.model.fold(courses, self.batch.refusal)
            announce("batch.folded")
            for index, one in enumerate(courses):
                self._close(one, folded.broken.get(index))
            # Intents are written under the spans of their events; without any, spans have time until all is done.
            spans = self._spans(courses, begun_ns) if folded.intents else None
            await self._write(folded, spans)
            if self.consumer.control.marks is not None:
                await self._mark(courses, folded, self.consumer.control.marks)
            announce("batch.written")
            written = time.monotonic()
        over, over_ns = time.monotonic(), time.time_ns()
        announce("batch.committed")
        self.context.committed(fresh, (moved.aggregate for moved in self.writes.moved))
        if not folded.intents:
            spans = self._spans(courses, begun_ns)
        if spans is not None:
            spans.committed(over_ns, courses, folded.broken)
        tried = sum(1 for one in courses if one.tried)
        return BatchResult(
            writes=self.writes,
            delay=self.writes.soonest(),
            tried=tried,
            took_s=over - begun,
            commit_s=over - written,
            spans=spans,
        )

    def _spans(self, courses: Sequence[AggregatePlan], begun_ns: int) -> BatchSpans | None:
        return self.context.tracer.batch_spans(self.batch, courses, begun_ns, self.writes.repeats)

    def _close(self, one: AggregatePlan, broken: FailedAt | None) -> None:
        consumer = self.consumer
        record_outcome(
            one,
            broken,
            self.writes,
            grace=consumer.gap_fetch_delay_s,
            keep=consumer.policy.max_parked_payloads,
        )
        refusal = self.batch.refusal
        if broken is not None and refusal is not None and refusal.kind is FailureReason.FAULT:
            self.writes.add_incident(
                one.tried[broken.at], IncidentKind.FAULT, storable(refusal.text)[:MOST_TEXT]
            )

    # -- claim ---------------------------------------------------------------------------------------------------

    async def _enter(self) -> Sequence[Delivery]:
        """Pass the barrier and take over the control row; return the deliveries whose identities are to be claimed."""
        await self.store.enter()
        seqs = self.batch.settles()
        control = await (self.store.control_settling(seqs) if seqs else self.store.control())
        self.consumer.check(control)
        self.context.follow()
        announce("batch.entered")
        if self.batch.foreign:
            self.writes.counts["", "foreign"] += len(self.batch.foreign)
        deliveries = await self._deliveries()
        if seqs and (aside := control[0]["aside"]):
            deliveries, again = without(deliveries, aside)
            self.writes.count_all(again, "redelivered")
        return deliveries

    async def _deliveries(self) -> Sequence[Delivery]:
        """Return the deliveries of the batch; of those out of quarantine, which come from one incarnation of the
        stream, the ones that nobody has decided otherwise about."""
        deliveries, self.incarnation = self.batch.deliveries, self.consumer.incarnation
        if self.consumer.control.repeats:
            self.decided = await decided(self.store, self.consumer.reader, self.batch)
            deliveries = self.decided.amended(deliveries)
        if not deliveries or deliveries[0].released is None:
            return deliveries
        self.incarnation = deliveries[0].incarnation or self.incarnation
        asked = await self.store.quarantine_asked(self.incarnation, [d.seq for d in deliveries])
        self.released = [d for d in deliveries if asked.get(d.seq) == d.released]
        return self.released

    async def _claim(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Take the identities nobody has settled; note repeats, and identities that came with other content."""
        taken = intake(deliveries)
        fresh = taken.fresh
        if not fresh:
            return []
        kept = [d.kept for d in fresh] if self.consumer.policy.payload == "always" else [None] * len(fresh)
        count = await self.store.claim(self.number, self.incarnation, fresh, kept)
        if count != len(fresh) or taken.again:
            fresh = await self._sort_known(fresh, taken.again)
        if self.consumer.reader.unnamed:
            for one in fresh:
                if one.used_fallback:
                    self.writes.count(one, "unnamed")
        return fresh

    async def _sort_known(self, asked: Sequence[Delivery], again: Sequence[Delivery]) -> list[Delivery]:
        held = await self.store.known((d.source, d.id) for d in asked)
        if len(held) != len(asked):
            raise Again("an identity was released while this batch waited for it")
        fresh = []
        for delivery in asked:
            row = held[delivery.source, delivery.id]
            if row["batch"] == self.number:
                fresh.append(delivery)
            else:
                self._compare(delivery, row)
        for delivery in again:
            self._compare(delivery, held[delivery.source, delivery.id])
        return fresh

    def _compare(self, delivery: Delivery, row: Record) -> None:
        """Compare the event of a known identity: it comes again, or another one has its name."""
        if not self.consumer.reader.is_same(delivery, row["hash"]):
            contradict(self.writes, delivery, IncidentKind.IDENTITY_REUSE, reused_identity(row))
        elif (row["incarnation"], row["seq"]) != (self.incarnation, delivery.seq):
            self.writes.repeats.append(delivery)
        else:
            self.writes.count(delivery, "redelivered")

    # -- judge ---------------------------------------------------------------------------------------------------

    async def _judge(self, fresh: Sequence[Delivery]) -> list[AggregatePlan]:
        """Lock the positions, read what is parked behind them, and plan every aggregate."""
        if self.consumer.sequence == UNORDERED:
            again = await self.store.entries(self.batch.entries) if self.batch.entries else []
            new = map(put_by if self.consumer.stores_first else alone, fresh)
            old = [self.context.parking.unparked(row) for row in again]
            return [*new, *map(alone, old if self.decided is None else self.decided.amended(old))]
        groups: dict[str, list[Delivery]] = {aggregate: [] for aggregate in self.batch.due}
        for delivery in fresh:
            if self.decided is not None and (winner := self.decided.winner(delivery)):
                reuse(self.writes, delivery, *winner)
            else:
                groups.setdefault(delivery.aggregate or "", []).append(delivery)
        if not groups:
            return []
        courses = await self._plan(groups)
        stale = [delivery for one in courses for delivery in one.stale]
        for loser, holder in [clash for one in courses for clash in one.clashes]:
            reuse(self.writes, loser, holder.source, holder.id)
        if stale:
            await self._judge_old(stale)
        return courses

    async def _plan(self, groups: dict[str, list[Delivery]]) -> list[AggregatePlan]:
        positions = await self._positions(sorted(groups))
        if self.consumer.stores_first and not self.batch.due:
            return [stored(p, groups[p.aggregate], self.consumer.sequence) for p in positions]
        # Under the lock: another process may have settled in the meantime what was listed as due.
        due = {p.aggregate for p in positions if p.is_due}.intersection(self.batch.due)
        if self.consumer.stores_first:
            due = await self.store.owned(due, self.consumer.runner)
        sequence = self.consumer.sequence
        limit = self.consumer.policy.drain_batch_size if self.batch.limit is None else self.batch.limit
        moving = [
            p
            for p in positions
            if limit and may_move(p, groups[p.aggregate], sequence, due=p.aggregate in due)
        ]
        limit = max(1, min(limit, DRAIN_EVENTS // len(moving))) if moving else limit
        parked = await self._behind(moving, limit) if moving else {}
        return [
            plan_aggregate(
                p,
                groups[p.aggregate],
                run.deliveries,
                sequence,
                due=p.aggregate in due,
                limit=run.limit,
                lacking=run.lacking,
                accepted=None if self.decided is None else self.decided.accepted(p.aggregate),
            )
            for p in positions
            for run in (parked.get(p.aggregate) or ParkedRun([], limit),)
        ]

    async def _behind(self, moving: Sequence[LockedPosition], limit: int) -> dict[str, ParkedRun]:
        share = max(1, DRAIN_BYTES // len(moving))
        heads = [(p.aggregate, p.version, reach(p, limit)) for p in moving]
        rows = await self.store.successors(heads, share)
        runs = parked_runs(rows, self.context.parking, limit, share)
        return runs if self.decided is None else self.decided.behind(runs)

    async def _positions(self, aggregates: Sequence[str]) -> list[LockedPosition]:
        unknown = self.context.positions.unknown(aggregates)
        if unknown:
            await self.store.place(unknown, self.consumer.start)
        rows = await self.store.positions(aggregates)
        self.batch_order.locked()
        if len(rows) != len(aggregates):
            self.context.positions.clear()
            raise Again("a position that this process had seen is gone")
        found = [
            LockedPosition(
                version=version,
                head=head,
                finding=finding,
                parked=parked,
                aggregate=aggregate,
                due=due,
                is_due=is_due,
            )
            for version, head, finding, parked, aggregate, due, is_due in rows
        ]
        return found if self.decided is None else self.decided.reached(found)

    async def _judge_old(self, stale: Sequence[Delivery]) -> None:
        """Tell apart, among events at or below their position: a version used twice, late, or simply old."""
        asked = {(d.aggregate or "", d.version or 0) for d in stale}
        holders = [row for row in await self.store.versions(asked) if row["batch"] != self.number]
        ranges = await self.store.stepped_over(sorted({aggregate for aggregate, _ in asked}))
        for delivery in stale:
            verdict, holder = judge_old(delivery, holders, ranges)
            if holder is not None:
                reuse(self.writes, delivery, holder["source"], holder["id"])
            elif verdict is Verdict.LATE:
                late(self.writes, delivery)
            else:
                self.writes.settle(delivery, InboxState.STALE, verdict)
                self.writes.count(delivery, "stale")

    # -- write ---------------------------------------------------------------------------------------------------

    async def _write(self, folded: FoldedBatch, spans: BatchSpans | None) -> None:
        """Write everything the batch decided."""
        await self.model.write(folded)
        waiting, asking = (p.delivery for p in self.writes.parked), (d for d, _, _ in folded.intents)
        self.context.tracer.keep_baggage(waiting, asking)
        writer = BatchWriter(
            self.store,
            self.consumer,
            self.batch,
            self.writes,
            number=self.number,
            incarnation=self.incarnation,
        )
        await writer.write(self.released)
        if folded.idle:
            self.writes.count_all(folded.idle, "condition_false")
            await self.store.idle(folded.idle)
        if folded.intents:
            await self._stage(folded.intents, spans)
        if self.writes.counts:
            self.writes.counts = self.context.types.bounded(self.writes.counts)
            await self.store.count(self.consumer.runner, self.writes.counts)

    async def _stage(
        self, emitted: Sequence[tuple[Delivery, Emitted, View]], spans: BatchSpans | None
    ) -> None:
        staged = stage_intents(emitted, self.context.intents, self.writes)
        self.writes.staged = len(staged)
        if spans is not None:
            spans.inject_into_intents(staged)
        if staged:
            await self.store.stage(self.incarnation, staged)

    async def _mark(self, courses: Sequence[AggregatePlan], folded: FoldedBatch, slot: int) -> None:
        """Tell the open build what has moved: aggregates, and sequences of what has no order."""
        moved = {m.aggregate for m in self.writes.moved if m.seq is not None}
        moved.update(
            str(one.tried[0].seq)
            for index, one in enumerate(courses)
            if one.position is None and index not in folded.broken
        )
        if moved:
            await self.store.mark(slot, sorted(moved))
