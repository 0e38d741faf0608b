"""The batch transaction: claim, judge, fold, write, commit. Every step a function, read top to bottom.

The order of its statements is what keeps two of them from waiting for each other in a circle: barrier, claims in
order of identities, placeholders and positions in order of aggregates, rows in order of keys, then only rows that
nobody else may touch, and at last the append-only tables in stream order.
"""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from projectionist.core.printable_text import storable
from projectionist.core.states import InboxState, IncidentKind
from projectionist.core.testpoints import announce
from projectionist.projections.folding.version_verdict import Verdict
from projectionist.runner.batch.conflicts import (
    judge_old,
    kept_aside,
    put_aside,
    reused_identity,
    reused_version,
    unreadable,
)
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
from projectionist.runner.batch.writes import Again, BatchWrites, Incident

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.runner.batch.batch_spans import BatchSpans
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.handlers import FoldedBatch, Model
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.batch.outcomes import FailedAt
    from projectionist.runner.batch.sequencing import BatchOrder
    from projectionist.runner.batch.types import Batch
    from projectionist.runner.decoding.delivery import Delivery


DRAIN_BYTES = 16 * 1024 * 1024
"""How much of parked events one transaction holds at most, beside one event an aggregate."""
DRAIN_EVENTS = 10_000
"""How many of them: one that a thousand heads drain at once would outlast the session, and then once more."""


class Transaction:
    """One run of one batch; nothing in it outlives the run."""

    def __init__(
        self, consumer: Consumer, store: InboxStore, model: Model, batch: Batch, batch_order: BatchOrder
    ) -> None:
        self.consumer = consumer
        self.store = store
        self.model = model
        self.batch = batch
        self.batch_order = batch_order
        self.number = consumer.next_batch()
        self.incarnation = 0
        self.released: Sequence[Delivery] = ()
        self.decided: PastDecisions | None = None
        self.writes = BatchWrites(consumer.sources)

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
            await self.store.enter()
            seqs = self.batch.settles()
            control = await (self.store.control_settling(seqs) if seqs else self.store.control())
            self.consumer.check(control)
            announce("batch.entered")
            if self.batch.foreign:
                self.writes.counts["", "foreign"] += len(self.batch.foreign)
            deliveries = await self._deliveries()
            if seqs and control is not None and (aside := control["aside"]):
                deliveries, again = without(deliveries, aside)
                self.writes.counts.update((one.type, "redelivered") for one in again)
            fresh = await self._claim(deliveries)
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
            if self.consumer.marks is not None:
                await self._mark(courses, folded, self.consumer.marks)
            announce("batch.written")
            written = time.monotonic()
        over, over_ns = time.monotonic(), time.time_ns()
        announce("batch.committed")
        if fresh:
            self.consumer.witness = fresh[-1].source, fresh[-1].id, fresh[-1].seq
        self.consumer.exists.add(moved.aggregate for moved in self.writes.moved)
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
        return self.consumer.tracing.batch_spans(self.batch, courses, begun_ns, self.writes.repeats)

    def _close(self, one: AggregatePlan, broken: FailedAt | None) -> None:
        consumer = self.consumer
        record_outcome(one, broken, self.writes, grace=consumer.grace_s, keep=consumer.policy.parked_limit)
        refusal = self.batch.refusal
        if broken is not None and refusal is not None and refusal.kind is FailureReason.FAULT:
            self.writes.tell(one.tried[broken.at], IncidentKind.FAULT, storable(refusal.text)[:MOST_TEXT])

    # -- claim ---------------------------------------------------------------------------------------------------

    async def _deliveries(self) -> Sequence[Delivery]:
        """The deliveries of the batch; of those out of quarantine, which come from one incarnation of the stream,
        the ones that nobody has decided otherwise about."""
        deliveries, self.incarnation = self.batch.deliveries, self.consumer.incarnation
        if self.consumer.repeats:
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
        kept = [d.data for d in fresh] if self.consumer.policy.payload == "always" else [None] * len(fresh)
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
        """A known identity: the same event again, or another one under its name."""
        if not self.consumer.reader.is_same(delivery, row["hash"]):
            self._is_contradiction(delivery, IncidentKind.IDENTITY_REUSE, reused_identity(row))
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
            old = [self.consumer.parking.unparked(row) for row in again]
            return [*new, *map(alone, old if self.decided is None else self.decided.amended(old))]
        groups: dict[str, list[Delivery]] = {aggregate: [] for aggregate in self.batch.due}
        for delivery in fresh:
            if self.decided is not None and (winner := self.decided.winner(delivery)):
                self._is_reuse(delivery, *winner)
            else:
                groups.setdefault(delivery.aggregate or "", []).append(delivery)
        if not groups:
            return []
        courses = await self._plan(groups)
        stale = [delivery for one in courses for delivery in one.stale]
        for loser, holder in [clash for one in courses for clash in one.clashes]:
            self._is_reuse(loser, holder.source, holder.id)
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
        limit = self.consumer.policy.drain_limit if self.batch.limit is None else self.batch.limit
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
            )
            for p in positions
            for run in (parked.get(p.aggregate) or ParkedRun([], limit),)
        ]

    async def _behind(self, moving: Sequence[LockedPosition], limit: int) -> dict[str, ParkedRun]:
        share = max(1, DRAIN_BYTES // len(moving))
        heads = [(p.aggregate, p.version, reach(p, limit)) for p in moving]
        rows = await self.store.successors(heads, share)
        runs = parked_runs(rows, self.consumer.parking, limit, share)
        return runs if self.decided is None else self.decided.behind(runs)

    async def _positions(self, aggregates: Sequence[str]) -> list[LockedPosition]:
        unknown = self.consumer.exists.unknown(aggregates)
        if unknown:
            await self.store.place(unknown, self.consumer.start)
        rows = await self.store.positions(aggregates)
        self.batch_order.locked()
        if len(rows) != len(aggregates):
            self.consumer.exists.clear()
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
                self._is_reuse(delivery, holder["source"], holder["id"])
            elif verdict is Verdict.LATE:
                self._late(delivery)
            else:
                self.writes.settle(delivery, InboxState.STALE, verdict)
                self.writes.count(delivery, "stale")

    def _is_reuse(self, delivery: Delivery, source: str, identity: str) -> None:
        """Two events claim one version: the first stands, the second is put aside."""
        self.writes.winners.append((delivery.aggregate or "", delivery.version or 0, source, identity))
        self.writes.settle(delivery, InboxState.QUARANTINED, Verdict.REUSED)
        self._is_contradiction(delivery, IncidentKind.VERSION_REUSE, reused_version(source, identity))

    def _late(self, delivery: Delivery) -> None:
        self.writes.settle(delivery, InboxState.SKIPPED, Verdict.LATE)
        self.writes.count(delivery, "late")
        self.writes.tell(
            delivery,
            IncidentKind.LATE,
            "its version had been stepped over by a decision; it stays stepped over",
        )

    def _is_contradiction(self, delivery: Delivery, fact: IncidentKind, detail: str) -> None:
        if delivery.released is None:
            self.writes.quarantined.append(put_aside(delivery, fact, detail))
        else:
            self.writes.kept.append(kept_aside(delivery, delivery.released, fact, detail))
        self.writes.tell(delivery, fact, detail)

    # -- write ---------------------------------------------------------------------------------------------------

    async def _write(self, folded: FoldedBatch, spans: BatchSpans | None) -> None:
        """Everything the batch decided."""
        await self.model.write(folded)
        await self._write_journal()
        await self._write_aside()
        if folded.idle:
            self.writes.counts["", "condition_false"] += len(folded.idle)
            await self.store.idle(folded.idle)
        staged = stage_intents(folded.intents, self.consumer, self.writes)
        self.writes.staged = len(staged)
        if spans is not None:
            spans.inject_into_intents(staged)
        if staged:
            await self.store.stage(self.incarnation, staged)
        if self.writes.counts:
            self.writes.counts = self.consumer.kinds.bounded(self.writes.counts)
            await self.store.count(self.consumer.runner, self.writes.counts)

    async def _write_journal(self) -> None:
        """What only the holder of the positions may change: parked events, positions, states."""
        store, writes, code = self.store, self.writes, self.consumer.code
        if writes.unparked:
            await store.unpark(writes.unparked)
        for delivery, failed in writes.failed_again:
            await store.fail_again(delivery, failed, code)
        if writes.parked:
            await self._park()
        if writes.moved:
            await store.advance(writes.moved)
        if self.consumer.stores_first and self.batch.due:
            await store.run("release_claims", self.batch.due, self.consumer.runner)
        for (state, verdict), deliveries in writes.settled.items():
            await store.settle(deliveries, state, verdict, self.number)
        if writes.winners:
            await store.choose(writes.winners)

    async def _write_aside(self) -> None:
        """What is only ever appended, and counted only where it is new, since all of it may come again; and what comes
        out of quarantine, whose rows are locked since the beginning."""
        store, writes, incarnation, code = self.store, self.writes, self.incarnation, self.consumer.code
        for bad in self.batch.unreadable:
            writes.quarantined.append(unreadable(bad))
        if writes.repeats:
            new = await store.repeat(incarnation, writes.repeats)
            writes.count_new("duplicate", writes.repeats, new)
        if writes.quarantined:
            new = await store.quarantine(incarnation, code, writes.quarantined)
            writes.aside = [one for one in writes.quarantined if one.seq in set(new)]
            writes.count_new("quarantined", writes.quarantined, new)
        if writes.kept:
            await store.quarantine_keep(incarnation, code, writes.kept)
        if self.released:
            await self._release({one.seq for one in writes.kept})
        if writes.incidents:
            await self._report(writes.incidents)

    async def _report(self, told: Sequence[Incident]) -> None:
        for kind, new in (await self.store.report(self.incarnation, told)).items():
            self.writes.count_new(f"incident_{kind}", (one for one in told if one.kind == kind), new)

    async def _release(self, kept: Container[int]) -> None:
        out = [delivery for delivery in self.released if delivery.seq not in kept]
        await self.store.quarantine_release(self.incarnation, [delivery.seq for delivery in out])
        for delivery in out:
            self.writes.count(delivery, "released")

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

    async def _park(self) -> None:
        """Park; who finds its version held by a parked event that this batch did not read is its second claimant."""
        writes = self.writes
        free = await self.store.park(self.incarnation, writes.parked, self.consumer.code)
        refused = [p.delivery for p in writes.parked if (p.delivery.source, p.delivery.id) not in free]
        if not refused:
            return
        holders = await self.store.holders([(d.aggregate or "", d.version or 0) for d in refused])
        moved = {m.aggregate: m for m in writes.moved}
        for delivery in refused:
            writes.unpark(delivery)
            moved[delivery.aggregate or ""].parked -= 1
            self._is_reuse(delivery, *holders[delivery.aggregate or "", delivery.version or 0])
