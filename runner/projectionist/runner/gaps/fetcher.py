"""Gap fetch: the missing versions of an aggregate are read from the stream before an operator is called.

It runs beside the batches, and asks the broker outside any transaction. What it finds is left in the pipeline's handoff
and goes through the ordinary batch transaction like any delivery, without an ack. What it does not find becomes a
finding, but only when the stream's leader says so and everything up to the end that was read has been settled: until
then it may be on its way.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

from projectionist.core import clock
from projectionist.core.digest import stand_in
from projectionist.core.errors import ProjectionistError
from projectionist.core.states import Finding, InboxState, IncidentKind
from projectionist.core.testpoints import announce
from projectionist.runner.batch.handoff import DecodedArrivals
from projectionist.runner.batch.position_lock import entered, lock_positions
from projectionist.runner.batch.types import Batch
from projectionist.runner.batch.writes import Incident
from projectionist.runner.database.chores import Chore, OptionalSteps, passes
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.gaps import stream_search
from projectionist.runner.gaps.baseline import Baselines
from projectionist.runner.gaps.diagnosis import (
    DecisionRecord,
    MissingVersions,
    QuarantinedNearby,
    SearchEvidence,
    diagnose,
    explain_gap,
    may_come,
)
from projectionist.runner.jetstream import api, stream_subjects
from projectionist.runner.jetstream.api import StreamInfo
from projectionist.runner.jetstream.message_lookup import Stored

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.handoff import Handoff
    from projectionist.runner.batch.shared_pool import SharedPool
    from projectionist.runner.database.chores import FailureBook
    from projectionist.runner.failures.consumer_breaker import ConsumerBreaker

log = logging.getLogger("projectionist.runner")

CHORE = "looking for missing versions"
MOST_DUE = 1_000
"""How many gaps one round takes up."""
AT_ONCE = 32
"""How many aggregates are read at the same time: their requests share the connection."""
POLL_S = 0.25
PATIENCE_S = 5.0
"""How long the floor is waited for, before the head is left to come due again."""
MOST_WAITING = 10_000
SHOWN = 3
"""How many findings of one round get a log line of their own."""
BATCH, MOST_BYTES = 1_000, 16 * 1024 * 1024
"""How many events, or bytes of them, are handed over together."""
MOVING = frozenset({InboxState.PARKED, InboxState.APPLIED})


class PendingGap(msgspec.Struct):
    """Missing versions that the stream did not hold up to `last_seq`."""

    lack: MissingVersions
    last_seq: int
    resume: int
    until: float


class FetchRound(msgspec.Struct):
    """The yield of one look at several aggregates."""

    stream: StreamInfo
    found: list[Delivery] = []
    size: int = 0
    verdicts: list[tuple[MissingVersions, Finding, str]] = []
    ages: dict[str, float] = {}
    """For how many seconds each aggregate has waited."""


class GapFetcher:
    """Fetches for one consumer in one process until it is cancelled."""

    def __init__(
        self,
        consumer: Consumer,
        access: SharedPool,
        client: Client,
        durable: str,
        handoff: Handoff,
        breaker: ConsumerBreaker,
        book: FailureBook,
    ) -> None:
        self._consumer = consumer
        self._access = access
        self._client = client
        self._stored = Stored(client, consumer.definition.stream)
        self._durable = durable
        self._handoff = handoff
        self._breaker = breaker
        self._baselines = Baselines(consumer, access, self._stored)
        self._contained = OptionalSteps(self._name, book)
        self._chore = Chore(
            CHORE, self._round, verdicts=(ProjectionistError,), consumer=self._name, book=book
        )
        self._waiting: dict[str, PendingGap] = {}
        self._woken = anyio.Event()

    def wake(self) -> None:
        """Have gaps looked for that are due."""
        self._woken.set()

    async def run(self) -> None:
        """Fetch for what is due whenever it is woken, and look after what it waits for; an outage puts both off."""
        while True:
            with anyio.move_on_after(POLL_S if self._waiting else None):
                await self._woken.wait()
            self._woken = anyio.Event()
            await self._chore.step()

    @property
    def _name(self) -> str:
        return self._consumer.definition.name

    async def _round(self) -> None:
        due = await self._take_due()
        if not due and not self._waiting:
            return
        passed = await self._passed()  # before the stream is read: what is settled now was stored before
        this = FetchRound(await api.stream(self._client, self._consumer.definition.stream))
        # Read after the floor: an aggregate that lacks the same versions still was given none of them up to there.
        lacks = await self._lacks([*due, *passed], this)
        limiter = anyio.CapacityLimiter(AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for lack in lacks:
                waited = passed.get(lack.aggregate)
                same = waited is not None and waited.lack == lack
                tasks.start_soon(self._look, lack, waited if same else None, this, limiter)
        await self._hand_over(this)
        await self._conclude(this.verdicts)
        announce("gap.looked")

    async def _take_due(self) -> list[str]:
        """Take up gaps that are due and nobody holds; those that it waits for already are left out."""
        async with self._access.store(self._consumer) as store:
            if await store.row("has_due_gaps") is None:
                return []
            async with entered(store, self._consumer):
                due = [row["aggregate"] for row in await store.rows("lock_due_gaps", MOST_DUE)]
                rows = await store.rows("postpone_due_gaps", due, self._consumer.gap_fetch_delay_s)
        if len(due) == MOST_DUE:
            self.wake()
        taken = [row["aggregate"] for row in rows]
        # The broker is asked while no connection is held.
        settling = self._baselines.settle(taken)
        unknown = await self._contained.result(settling, frozenset(), "finding where aggregates begin")
        return [one for one in taken if one not in unknown and one not in self._waiting]

    async def _passed(self) -> dict[str, PendingGap]:
        """Return the waiting ones that the floor has passed; those are not waiting any more, nor is who waited too
        long."""
        if not self._waiting:
            return {}
        durable = await api.consumer(self._client, self._consumer.definition.stream, self._durable)
        idle = not durable.num_pending and not durable.num_ack_pending
        floor, now = durable.ack_floor.stream_seq, clock.now()
        passed = {a: one for a, one in self._waiting.items() if idle or floor >= one.last_seq}
        self._waiting = {a: one for a, one in self._waiting.items() if a not in passed and now < one.until}
        return passed

    async def _lacks(self, aggregates: Sequence[str], this: FetchRound) -> list[MissingVersions]:
        if not aggregates:
            return []
        async with self._access.store(self._consumer) as store:
            rows = await store.rows("select_missing_versions", aggregates)
        this.ages = {row["aggregate"]: row["age_s"] for row in rows}
        return [MissingVersions(*(row[name] for name in MissingVersions.__struct_fields__)) for row in rows]

    async def _look(
        self,
        lack: MissingVersions,
        waited: PendingGap | None,
        this: FetchRound,
        limiter: anyio.CapacityLimiter,
    ) -> None:
        """Look for one aggregate's versions: they are found, or waited for, or there is a finding."""
        async with limiter:
            try:
                await self._looked(lack, waited, this)
            except Exception as error:  # an outage leaves it to the time when it is due again
                if not passes(error):
                    raise
                log.debug("%s: gap fetch put off: %s", self._name, error)

    async def _looked(self, lack: MissingVersions, waited: PendingGap | None, this: FetchRound) -> None:
        evidence, last_seq = self._evidence(lack, waited, this.stream), this.stream.state.last_seq
        # A position of an earlier incarnation says nothing about this stream.
        resume = lack.seq + 1 if lack.seq <= last_seq else 1
        if evidence.subject is not None:
            resume = resume if waited is None else waited.resume
            seen = await stream_search.search(self._stored, self._consumer, lack, evidence.subject, resume)
            news, moving = await self._unsettled_gaps(seen.found)
            if news or moving:
                await self._gather(news, this)
                return
            resume = seen.resume
            evidence = msgspec.structs.replace(evidence, floor_passed=evidence.floor_passed and seen.ended)
        if diagnose(lack, evidence) is Finding.IN_FLIGHT:
            self._wait(PendingGap(lack, last_seq, resume, clock.now() + PATIENCE_S))
        else:
            await self._judge(lack, evidence, this)

    def _evidence(
        self, lack: MissingVersions, waited: PendingGap | None, stream: StreamInfo
    ) -> SearchEvidence:
        """Return what is known before the stream is read."""
        subject = stream_search.subject_of(lack, self._consumer.definition.subjects)
        return SearchEvidence(
            stream=self._consumer.definition.stream,
            first_seq=stream.state.first_seq,
            last_seq=stream.state.last_seq if waited is None else waited.last_seq,
            subject=subject,
            floor_passed=waited is not None,
            is_taken=subject is None or stream_subjects.takes(stream.config, subject),
        )

    def _wait(self, one: PendingGap) -> None:
        if len(self._waiting) < MOST_WAITING:
            self._waiting[one.lack.aggregate] = one

    async def _unsettled_gaps(self, found: Sequence[Delivery]) -> tuple[list[Delivery], bool]:
        """Return those whose identity is not settled, and whether another of them is on its way through the inbox."""
        if not found:
            return [], False
        async with self._access.store(self._consumer) as store:
            known = await store.known((d.source, d.id) for d in found)
            given = (self._consumer.incarnation, [d.seq for d in found])
            refused = {row["seq"] for row in await store.rows("select_refused_sequences", *given)}
        settled = [(d, known[d.source, d.id]) for d in found if (d.source, d.id) in known]
        moving = any(row["hash"] == d.hash and row["state"] in MOVING for d, row in settled)
        return [d for d in found if (d.source, d.id) not in known and d.seq not in refused], moving

    async def _judge(self, lack: MissingVersions, evidence: SearchEvidence, this: FetchRound) -> None:
        """Note the finding with all that can be said about it, unless the missing versions may merely be late."""
        finding = diagnose(lack, evidence)
        if evidence.subject is not None and finding is not Finding.IMPLAUSIBLE:
            other = await stream_search.search_other_subjects(self._stored, self._consumer, lack)
            evidence = msgspec.structs.replace(evidence, elsewhere=other)
        async with self._access.store(self._consumer) as store:
            given = (lack.aggregate, evidence.subject, self._consumer.incarnation, lack.seq)
            missed = (lack.version + 1, lack.until - 1)
            rows = await store.rows("select_quarantined_of_aggregate", *given, *missed)
        evidence = msgspec.structs.replace(evidence, quarantined=list(map(_nearby, rows)))
        finding = diagnose(lack, evidence)
        late = this.ages[lack.aggregate] < self._consumer.policy.late_s
        if late and may_come(lack, finding, evidence):
            announce("gap.late")  # it comes due again
        else:
            this.verdicts.append((lack, finding, explain_gap(lack, finding, evidence)))

    async def _gather(self, news: Sequence[Delivery], this: FetchRound) -> None:
        this.found += news
        this.size += sum(len(delivery.data) for delivery in news)
        if len(this.found) >= BATCH or this.size > MOST_BYTES:
            await self._hand_over(this)

    async def _hand_over(self, this: FetchRound) -> None:
        """Give what was found to the pipeline, which takes one batch at a time; meanwhile no more is read."""
        found, this.found, this.size = this.found, [], 0
        if found:
            log.info("%s: %d missing events fetched from the stream", self._name, len(found))
            await self._handoff.put(DecodedArrivals([], Batch(deliveries=found)))
            announce("gap.fetched")

    async def _conclude(self, verdicts: Sequence[tuple[MissingVersions, Finding, str]]) -> None:
        """Write the findings down, each in a transaction of its own, unless the aggregate has moved meanwhile."""
        for number, (lack, finding, detail) in enumerate(verdicts):
            async with (
                self._access.store(self._consumer) as store,
                lock_positions(store, self._consumer, [lack.aggregate]),
            ):
                if await store.row("set_gap_finding", lack.aggregate, lack.version, finding) is None:
                    continue
                fact = Incident(
                    kind=IncidentKind(finding),
                    seq=lack.behind,
                    source=None,
                    id=None,
                    aggregate=lack.aggregate,
                    version=lack.until,
                    detail=detail,
                )
                await store.report(self._consumer.incarnation, [fact])
                await store.count(self._consumer.runner, Counter({("", f"finding_{finding}"): 1}))
            if finding is Finding.FILTERED:
                await self._breaker.filtered()
            if number < SHOWN:
                kind = stand_in(lack.aggregate, lack.aggregate.partition("/")[0])
                text = "%s: %s lacks versions %d to %d: %s. `projectionist incidents list --each` says more"
                log.warning(text, self._name, kind, lack.version + 1, lack.until - 1, finding)
            log.debug("%s: %s", self._name, detail)
            announce("gap.concluded")
        if len(verdicts) > SHOWN:
            log.warning("%s: %d gaps cannot be filled, see the incidents", self._name, len(verdicts))


def _nearby(row: Record) -> QuarantinedNearby:
    discard = None if row["actor"] is None else DecisionRecord(row["actor"], row["at"], row["why"])
    return QuarantinedNearby(row["seq"], row["version"], row["reason"], discard)
