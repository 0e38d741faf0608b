"""Writes what a batch decided about events and aggregates, in the one order in which all batches write."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from projectionist.runner.batch.conflicts import reuse, unreadable
from projectionist.runner.batch.outcomes import held_changes

if TYPE_CHECKING:
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.batch.types import Batch
    from projectionist.runner.batch.writes import BatchWrites, Incident
    from projectionist.runner.decoding.delivery import Delivery


class BatchWriter:
    """The statements that bring the writes of one batch into the database."""

    def __init__(
        self,
        store: InboxStore,
        consumer: Consumer,
        batch: Batch,
        writes: BatchWrites,
        *,
        number: int,
        incarnation: int,
    ) -> None:
        self._store = store
        self._consumer = consumer
        self._batch = batch
        self._writes = writes
        self._number = number
        self._incarnation = incarnation

    async def write(self, released: Sequence[Delivery]) -> None:
        """Write what the batch decided about events and aggregates; `released`: what comes out of quarantine."""
        await self._write_held()
        await self._write_appended(released)

    async def _write_held(self) -> None:
        """Write what only the holder of the positions may change: parked events, positions, states."""
        store, writes, code = self._store, self._writes, self._consumer.code
        if writes.unparked:
            await store.unpark(writes.unparked)
        for delivery, failed in writes.failed_again:
            await store.fail_again(delivery, failed, code)
        if writes.parked:
            await self._park()
        if writes.moved:
            await store.advance(writes.moved)
            if changes := held_changes(writes.held):
                await store.hold(changes)
        if self._consumer.stores_first and self._batch.due:
            await store.run("release_claims", self._batch.due, self._consumer.runner)
        for (state, verdict), deliveries in writes.settled.items():
            await store.settle(deliveries, state, verdict, self._number)
        if writes.winners:
            await store.choose(writes.winners)

    async def _write_appended(self, released: Sequence[Delivery]) -> None:
        """Write what is only ever appended, and counted only where it is new, since all of it may come again; and take
        out of quarantine what was released, whose rows are locked since the beginning."""
        store, writes, incarnation, code = self._store, self._writes, self._incarnation, self._consumer.code
        for bad in self._batch.unreadable:
            writes.quarantined.append(unreadable(bad))
        if writes.repeats:
            new = await store.repeat(incarnation, writes.repeats)
            writes.count_new("duplicate", writes.repeats, new)
        if writes.quarantined:
            most = self._consumer.policy.max_quarantined_payloads
            new = await store.quarantine(incarnation, code, writes.quarantined, most)
            first_seen = set(new)
            writes.newly_quarantined = [one for one in writes.quarantined if one.seq in first_seen]
            writes.count_new("quarantined", writes.quarantined, new)
        if writes.kept:
            await store.quarantine_keep(incarnation, code, writes.kept)
        if released:
            await self._release(released, {one.seq for one in writes.kept})
        if writes.incidents:
            await self._report(writes.incidents)

    async def _report(self, incidents: Sequence[Incident]) -> None:
        for kind, new in (await self._store.report(self._incarnation, incidents)).items():
            self._writes.count_new(f"incident_{kind}", (one for one in incidents if one.kind == kind), new)

    async def _release(self, released: Sequence[Delivery], kept: Container[int]) -> None:
        out = [delivery for delivery in released if delivery.seq not in kept]
        await self._store.quarantine_release(self._incarnation, [delivery.seq for delivery in out])
        for delivery in out:
            self._writes.count(delivery, "released")

    async def _park(self) -> None:
        """Park; who finds its version held by a parked event that this batch did not read is its second claimant."""
        writes = self._writes
        free = await self._store.park(self._incarnation, writes.parked, self._consumer.code)
        refused = [p.delivery for p in writes.parked if (p.delivery.source, p.delivery.id) not in free]
        if not refused:
            return
        holders = await self._store.holders([(d.aggregate or "", d.version or 0) for d in refused])
        moved = {m.aggregate: m for m in writes.moved}
        for delivery in refused:
            writes.unpark(delivery)
            moved[delivery.aggregate or ""].parked -= 1
            reuse(writes, delivery, *holders[delivery.aggregate or "", delivery.version or 0])
