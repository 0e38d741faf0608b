"""Brings one batch to its end: runs it, again where it must, and finds the events that do not get through."""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import anyio
import asyncpg
import msgspec

from projectionist.core import clock
from projectionist.core.digest import stand_in
from projectionist.core.errors import ProjectionistError
from projectionist.core.postgres.error_class import ErrorClass, classify, is_severed, is_transient
from projectionist.core.postgres.error_text import said
from projectionist.core.postgres.rights import Duty, refusal
from projectionist.core.printable_text import join_first
from projectionist.core.retry_policy import RetryPolicy, wait
from projectionist.core.states import InboxState
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.core.testpoints import announce
from projectionist.runner.batch.failure_evidence import MOST_PATIENCE_S, FailedPart, NextStep, Way, judge
from projectionist.runner.batch.position_lock import lock_positions
from projectionist.runner.batch.retry_policy import SLOWLY, FailureReason, Refusal, slow
from projectionist.runner.batch.sequencing import BatchOrder
from projectionist.runner.batch.transaction import BatchAttempt
from projectionist.runner.batch.types import Batch, BatchResult
from projectionist.runner.batch.wanted_rows import TooManyRows
from projectionist.runner.batch.writes import Again, BatchWrites, StillQuarantined
from projectionist.runner.decoding.delivery import Reason
from projectionist.runner.pipeline.bisect import BatchPart, as_bytes, divided, part_of

if TYPE_CHECKING:
    from projectionist.runner.batch.batch_session import BatchSession
    from projectionist.runner.batch.context import BatchContext
    from projectionist.runner.batch.inbox_store import InboxStore

log = logging.getLogger("projectionist.runner")

OUTAGE = RetryPolicy(initial_s=0.25, coefficient=2.0, maximum_s=1.0, attempts=1)
"""How a batch waits for what concerns it alone; for PostgreSQL itself it waits at the gates."""
T = TypeVar("T")

REFUSED = "it was read again, and PostgreSQL refuses to hold it"
LEFT_S = 60.0
"""How long a head waits of which nothing can be written, not even that it failed."""


class BatchSettler:
    """Settles the batches of one consumer, one after the other, on one session."""

    def __init__(self, context: BatchContext, session: BatchSession) -> None:
        self.context = context
        self.session = session

    async def settle(self, batch: Batch, batch_order: BatchOrder | None = None) -> list[BatchResult]:
        """Settle everything in the batch; returns once it is committed, however long PostgreSQL is away.

        What does not get through is divided, and its parts are tried in turn, so that none keeps another waiting.
        """
        return await Settling(self, batch, batch_order or BatchOrder()).run()

    async def settle_failed(
        self, batch: Batch, batch_order: BatchOrder, attempt: BatchAttempt, error: Exception
    ) -> list[BatchResult]:
        """Settle a batch whose first attempt has failed."""
        settling = Settling(self, batch, batch_order)
        await settling.failed(attempt, error)
        return await settling.run()

    async def surely(self, step: Callable[[InboxStore], Awaitable[T]]) -> T:
        """Run one statement of our own, however long PostgreSQL is away."""
        tries = 0
        while True:
            try:
                return await step((await self.session.ready())[0])
            except Exception as error:  # every other class is the caller's to judge
                if classify(error) is not ErrorClass.INFRASTRUCTURE:
                    raise
                tries += 1
                await self.outage(error, tries)

    async def refuse_without_rights(self, error: asyncpg.InsufficientPrivilegeError) -> None:
        """Raise RightMissing where this role lacks a right of a runner: that is about no event."""
        schema = self.session.schema
        told = await self.surely(lambda store: refusal(store.connection, schema, error, Duty.RUNNER))
        if told is not None:
            announce("batch.forbidden")
            raise told from error

    def count(self, why: str) -> None:
        """Count one more try of a batch."""
        name = self.context.consumer.definition.name
        metrics.add(instruments.RETRIES, 1, {names.CONSUMER: name, names.REASON: why})

    async def outage(self, error: Exception, tries: int) -> None:
        """Take in that a try failed for what may be nobody's fault, and wait the longer the more `tries` there were."""
        self.count("outage")
        self.context.positions.clear()
        await self.session.failed(error)
        announce("batch.outage")
        if tries and not self.session.is_throttled:
            await anyio.sleep(wait(OUTAGE, tries, chance=random.uniform(0.5, 1.0)))  # noqa: S311 - jitter


class Settling:
    """One batch on its way: lanes of parts, each tried in its turn until it has got through or is put aside."""

    def __init__(self, settler: BatchSettler, batch: Batch, batch_order: BatchOrder) -> None:
        self._settler = settler
        self._consumer, self._progress = settler.context.consumer, settler.context.progress
        self._long_s = settler.context.times.long_s
        self._batch_order = batch_order
        self._lanes: deque[deque[BatchPart]] = deque([deque([part_of(batch)])])
        self._idle = self._tries = 0
        """How many parts have missed since one got through, and how many waits that were."""
        self._applied: list[BatchResult] = []

    async def run(self) -> list[BatchResult]:
        """Return what became of all parts; raises what is about none of them, such as Superseded."""
        while self._lanes:
            attempt = BatchAttempt(self._settler.context, self._settler.session)
            try:
                part = self._lanes[0][0]
                self._done(part, await attempt.run(part.batch, self._batch_order))
            except Exception as error:  # noqa: BLE001  each class has its answer, and none is swallowed
                await self.failed(attempt, error)
        return self._applied

    async def failed(self, attempt: BatchAttempt, error: Exception) -> None:
        """Take in that an attempt of the first part has failed."""
        if isinstance(error, Again):
            announce("batch.again")
            self._settler.count("again")
        elif isinstance(error, TooManyRows) and (parts := self._divided(self._lanes[0][0], attempt)):
            self._split(self._lanes[0][0], parts)
        elif isinstance(error, ProjectionistError):
            if not is_transient(error):
                raise error
            self._tries += 1
            await self._settler.outage(error, self._tries)
        else:
            if isinstance(error, asyncpg.InsufficientPrivilegeError):
                await self._settler.refuse_without_rights(error)
            await self._missed(self._lanes[0][0], attempt, error)

    def _done(self, part: BatchPart, applied: BatchResult) -> None:
        if part.way is Way.APPLY and any(what == InboxState.APPLIED for _, what in applied.writes.counts):
            self._progress.got_through()
        self._applied.append(applied)
        self._idle = self._tries = 0
        self._lanes[0].popleft()
        if not self._lanes[0]:
            self._lanes.popleft()

    async def _missed(self, part: BatchPart, attempt: BatchAttempt, error: Exception) -> None:
        trouble = classify(error)
        if attempt.model is None:  # there was no session to try it on, which says nothing about it
            if trouble is not ErrorClass.INFRASTRUCTURE:
                raise error
            self._tries += 1
            await self._settler.outage(error, self._tries)
            return
        lasted_s = attempt.lasted_s
        known = part.is_from_quarantine or (
            part.way is Way.APPLY and len(part.keys) == 1 and await self._is_known(part)
        )
        parts = self._divided(part, attempt, known=known)
        miss = self._witnessed(part, trouble, single=not parts, long=lasted_s > self._long_s, known=known)
        step = judge(miss)
        if step is NextStep.RAISE:
            raise error
        await self._take(step, part, parts, miss, error)

    def _divided(self, part: BatchPart, attempt: BatchAttempt, *, known: bool = False) -> list[list[Batch]]:
        at = None if attempt.model is None else attempt.model.at
        return divided(part.batch, self._consumer.policy.drain_batch_size, at, known=known)

    async def _is_known(self, part: BatchPart) -> bool:
        """Return whether its event waits because it was put aside."""
        batch = part.batch
        if not (batch.due or batch.entries):
            return False
        ids = [identity for _, identity in batch.entries]
        row = await self._settler.surely(
            lambda store: store.row("select_failed_before", batch.due, ids, sorted(SLOWLY))
        )
        return row is not None

    def _witnessed(
        self, part: BatchPart, trouble: ErrorClass, *, single: bool, long: bool, known: bool
    ) -> FailedPart:
        """Return one more miss, and all that speaks for or against the part."""
        progress = self._progress
        part.misses += 1
        part.unparked += part.way is Way.FAIL
        part.since = since, applied = part.since or (clock.now(), progress.applied)
        now = clock.now()
        return FailedPart(
            trouble=trouble,
            way=part.way,
            misses=part.unparked if part.way is Way.FAIL else part.misses,
            single=single,
            others=progress.applied > applied,
            waited=progress.has_waited(since, now),
            exhausted=now - since >= MOST_PATIENCE_S,
            known=known,
            long=long,
        )

    async def _take(
        self, step: NextStep, part: BatchPart, parts: list[list[Batch]], miss: FailedPart, error: Exception
    ) -> None:
        """Do what was judged."""
        pause = False
        match step:
            case NextStep.AGAIN:
                if (
                    part.way is Way.FAIL and not part.refused
                ):  # it cannot be parked either: so it is not this event
                    part.on(Way.APPLY, msgspec.structs.replace(part.batch, refusal=None))
                self._lanes.rotate(-1)
                self._idle += 1
                if pause := self._idle >= len(self._lanes):
                    self._idle = 0
            case NextStep.SPLIT:
                self._split(part, parts)
            case NextStep.FAIL:
                self._fail(part, miss, error)
            case NextStep.PUT_ASIDE if part.batch.deliveries and part.batch.deliveries[0].released is None:
                # What has ended processes is for newer code or a person.
                again_s = None if part.refused else self._later_s(miss.trouble)
                bad = [as_bytes(one, str(error), again_s) for one in part.batch.deliveries]
                part.on(Way.PUT_ASIDE, Batch(unreadable=bad))
            case _:  # what is parked already has no bytes in hand, and stays where it is
                await self._leave(part, error)
        if miss.trouble is not ErrorClass.DATA:
            self._tries += pause
            await self._settler.outage(error, self._tries if pause else 0)

    def _split(self, part: BatchPart, parts: list[list[Batch]]) -> None:
        announce("batch.isolated")
        self._settler.count("isolated")
        first = self._lanes.popleft()
        first.popleft()
        lanes = [deque(part_of(batch, part.since) for batch in lane) for lane in parts]
        if first:  # the rest of one aggregate: it is divided into one lane, and goes on in it
            lanes[-1].extend(first)
        self._lanes.extendleft(reversed(lanes))
        self._idle = 0

    def _fail(self, part: BatchPart, miss: FailedPart, error: Exception) -> None:
        kind = _failing(miss.trouble, error)
        if kind is not FailureReason.DATABASE:
            self._progress.put_aside(miss, clock.now())
            log.warning(
                "%s: %s does not get through and is failed%s: %s",
                self._consumer.definition.name,
                join_first([stand_in(key, key.partition("/")[0]) for key in sorted(part.keys)]),
                ", since others do" if miss.others else ", to see whether others do",
                said(error),
            )
        announce("batch.blamed")
        part.on(Way.FAIL, msgspec.structs.replace(part.batch, refusal=Refusal(kind, str(error))))

    def _later_s(self, trouble: ErrorClass) -> float | None:
        """Return when bytes in quarantine are read again; None where no time mends what keeps them there."""
        passes = trouble is ErrorClass.INFRASTRUCTURE
        return slow(self._consumer.policy.retry).initial_s if passes else None

    async def _leave(self, part: BatchPart, error: Exception) -> None:
        """Leave the event where it came from, since nothing can be written of it; all others go on."""
        log.error(
            "%s: an event can neither be applied nor put aside, and comes again: %s",
            self._consumer.definition.name,
            said(error),
        )
        announce("batch.left")
        batch, code = part.batch, self._consumer.code
        again_s, tries = self._later_s(classify(error)), self._consumer.policy.retry.attempts
        arrivals = [one.arrival for one in batch.deliveries if one.arrival is not None]
        arrivals += [one.arrival for one in batch.unreadable]
        asked = [(d.incarnation or 0, d.seq, d.released) for d in batch.deliveries if d.released is not None]

        async def later(store: InboxStore) -> None:
            async with lock_positions(store, self._consumer, batch.due):
                await store.postpone(batch.due, LEFT_S)
                for identity in batch.entries:
                    await store.run("postpone_unordered_event", *identity, LEFT_S)
                for incarnation, seq, when in asked:
                    kept = StillQuarantined(
                        seq=seq, due=when, reason=Reason.REFUSED, detail=REFUSED, again_s=again_s, tries=tries
                    )
                    await store.quarantine_keep(incarnation, code, [kept])

        if batch.due or batch.entries or asked:
            await self._settler.surely(later)
        self._done(part, BatchResult(writes=BatchWrites(), delay=None, left=arrivals))


def _failing(trouble: ErrorClass, error: Exception) -> FailureReason:
    match trouble:
        case ErrorClass.DATA:
            return FailureReason.DATABASE
        case ErrorClass.BUG:
            return FailureReason.FAULT
        case _:
            return FailureReason.SESSION if is_severed(error) else FailureReason.ALONE
