"""After a process or a consumer in it broke off in its work: what may have ended it is tried alone, and not for ever.

A handler that kills its process is never an exception. Before a suspect is tried a mark is committed, which is taken
away when the try ends, however it ends. What stays is evidence: after three marks without an end the event is failed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Container, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import anyio
import msgspec

from projectionist.core.testpoints import announce
from projectionist.runner.batch.retry_policy import FailureReason, Refusal
from projectionist.runner.batch.types import Batch
from projectionist.runner.consumers.registry import INSTANCE, PLACE

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Row
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.batch.sequencing import BatchOrder
    from projectionist.runner.batch.types import BatchResult
    from projectionist.runner.batch.writes import Identity
    from projectionist.runner.pipeline.batch_retry import BatchSettler

log = logging.getLogger("projectionist.runner")

MOST_MARKS = 3
SLOW_S = 30.0
"""So long after its last heartbeat a process on a crowded machine may still have parked what ended it."""
SUSPECT_FROM = 3
"""A message delivered so often was twice held by somebody who did not come to an end with it."""


class RecentCrash(msgspec.Struct):
    """Says whether a process of this consumer has ended uncleanly within the last hour; heartbeats look again."""

    trial: anyio.Lock
    """Held while a suspect is tried or read, by whichever consumer of this process: what ends it then has the only
    mark, and nothing that was tried beside it is taken for it."""
    until: datetime | None = None
    """By when the last of them had ended: what came later has ended none of them. None: none has."""


class CrashGuard:
    """Settles batches; while there is suspicion, suspects each in a transaction of their own."""

    def __init__(self, settler: BatchSettler, suspicion: RecentCrash) -> None:
        self._consumer = settler.context.consumer
        self.settler = settler
        self.suspicion = suspicion

    async def settle(self, batch: Batch, batch_order: BatchOrder | None = None) -> list[BatchResult]:
        """Settle everything in the batch."""
        until = self.suspicion.until
        if until is None:
            return await self.settler.settle(batch, batch_order)
        rest, suspects = split_suspects(batch, await self._known(batch), await self._old(batch, until))
        applied = await self.settler.settle(rest, batch_order) if rest is not None else []
        for suspect in suspects:
            applied += await self._alone(suspect)
        return applied

    async def _known(self, batch: Batch) -> frozenset[Identity]:
        """Return what of the suspects is settled or parked already, and so is not tried."""
        asked = [(d.source, d.id) for d in batch.deliveries if d.delivered >= SUSPECT_FROM]
        if not asked:
            return frozenset()
        return frozenset(await self.settler.surely(lambda store: store.known(asked)))

    async def _old(self, batch: Batch, until: datetime) -> frozenset[str | Identity]:
        """Return what of the batch is due and was parked by then."""
        if not (batch.due or batch.entries):
            return frozenset()
        sources, ids = [source for source, _ in batch.entries], [name for _, name in batch.entries]
        rows = await self.settler.surely(
            lambda store: store.rows(
                "select_parked_before_crash",
                batch.due,
                sources,
                ids,
                self._consumer.policy.drain_batch_size,
                until,
            )
        )
        return frozenset(row["aggregate"] or (row["source"], row["id"]) for row in rows)

    async def _alone(self, suspect: Batch) -> list[BatchResult]:
        identity = await self._tried_first(suspect)
        if identity is None:
            return await self.settler.settle(suspect)
        async with self.suspicion.trial:
            return await self._tried(suspect, identity)

    async def _tried(self, suspect: Batch, identity: Identity) -> list[BatchResult]:
        marks = await self.settler.surely(partial(_mark, identity=identity, runner=self._consumer.runner))
        announce("careful.marked")
        if marks > MOST_MARKS:
            suspect.limit = 0 if suspect.deliveries else 1
            text = f"{MOST_MARKS} tries of it ended the process or its consumer"
            suspect.refusal = Refusal(FailureReason.CRASHED, text)
            log.error("%s: %s %s is failed: %s", self._consumer.definition.name, *identity, text)
        elif marks > 1 and suspect.due:
            suspect.limit = 1
        applied = await self.settler.settle(suspect)
        await self.settler.surely(lambda store: store.run("delete_crash_mark", *identity))
        announce("careful.unmarked")
        return applied

    async def _tried_first(self, suspect: Batch) -> Identity | None:
        """Return the event that a try of this batch begins with."""
        if suspect.deliveries:
            return suspect.deliveries[0].source, suspect.deliveries[0].id
        if suspect.entries:
            return suspect.entries[0]
        first = await self.settler.surely(lambda store: store.row("select_head_event", suspect.due[0]))
        return None if first is None else (first["source"], first["id"])


async def _mark(store: InboxStore, *, identity: Identity, runner: int) -> int:
    row = await store.row("increment_crash_marks", *identity, runner)
    assert row is not None
    return int(row["marks"])


def split_suspects(
    batch: Batch, known: frozenset[Identity], old: frozenset[str | Identity]
) -> tuple[Batch | None, list[Batch]]:
    """Return what is settled together, and the suspects: one event each, those of an aggregate in their order. Pure.

    Of what is due only the `old` may have ended a process: otherwise one unclean end would slow down whoever stores
    first for an hour.
    """
    suspected = {
        d.aggregate or d.id
        for d in batch.deliveries
        if d.delivered >= SUSPECT_FROM and (d.source, d.id) not in known
    }
    alone = [
        d for d in batch.deliveries if (d.aggregate or d.id) in suspected and (d.source, d.id) not in known
    ]
    alone.sort(key=lambda d: (d.aggregate or "", d.version or 0, d.seq))
    suspects = [Batch(deliveries=[delivery], limit=0) for delivery in alone]
    suspects += [Batch(due=[aggregate]) for aggregate in batch.due if aggregate in old]
    suspects += [Batch(entries=[identity]) for identity in batch.entries if identity in old]
    chosen = {id(delivery) for delivery in alone}
    rest = Batch(
        deliveries=[d for d in batch.deliveries if id(d) not in chosen],
        unreadable=batch.unreadable,
        due=[aggregate for aggregate in batch.due if aggregate not in old],
        entries=[identity for identity in batch.entries if identity not in old],
        foreign=batch.foreign,
    )
    any_left = rest.deliveries or rest.unreadable or rest.due or rest.entries or rest.foreign
    return (rest if any_left else None), suspects


def any_crashed(
    rows: Iterable[Row], silence_s: float, alive: Callable[[int], bool], broken_off: Container[int] = ()
) -> datetime | None:
    """Return by when the last of these runners had ended that have uncleanly: silent, of this place and gone, or
    `broken_off` here; None if none has. Pure.

    Equal names of hosts say nothing: in containers every process may be number 1 of a host of the same name.
    """
    last: datetime | None = None
    for row in rows:
        instance: UUID = row["instance"]
        near = instance.bytes[:8] == PLACE and instance != INSTANCE
        if (
            row["number"] in broken_off
            or row["silent_s"] > silence_s
            or (near and (row["pid"] == os.getpid() or not alive(row["pid"])))
        ):
            by = row["beat"] + timedelta(seconds=max(silence_s, min(row["silent_s"], SLOW_S)))
            last = by if last is None else max(last, by)
    return last


def is_alive(pid: int) -> bool:
    """Return whether this host runs a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
