"""One provider's intents, from the lease to the reply: one pass is read from top to bottom in `one_pass`."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio
import msgspec

from projectionist.core import clock
from projectionist.core.log_format import facts
from projectionist.core.states import IntentState
from projectionist.core.task_groups import TaskSet
from projectionist.core.telemetry import liveness
from projectionist.core.testpoints import announce
from projectionist.core.user_errors import lasting
from projectionist.outbox.providers.profiles import UnknownPolicy, horizon
from projectionist.outbox.providers.reply import Outcome, Reply
from projectionist.outbox.providers.runtime import (
    attempt,
    begin_attempt,
    lookup,
    lookup_hints,
    prepare,
    result_of,
)
from projectionist.outbox.relay import attempt_spans, state_machine
from projectionist.outbox.relay.circuit_breakers import Circuits
from projectionist.outbox.relay.concurrency_shares import LOOK_S, ConcurrencyShares
from projectionist.outbox.relay.database_link import DatabaseUnavailable
from projectionist.outbox.relay.intent_store import IntentStore, LeasedIntent, LeaseResult, Settled
from projectionist.outbox.relay.reply_writer import ReplyWriter
from projectionist.outbox.relay.state_machine import AttemptState, ReplyRules

if TYPE_CHECKING:
    from projectionist.outbox.providers.base import Provider
    from projectionist.outbox.relay.database_link import DatabaseLink

log = logging.getLogger("projectionist.outbox")

STEPS = 5_000
"""Lanes that one claim looks at: a walk over more goes on in the next claim."""

AGAIN_S = 0.5

LATE_S = 120.0
"""A loop without a sign for so long hangs: no statement, and no rest, takes as long."""

GRAIN_S, FAR_S = 0.02, 60.0
"""Moments at which an intent is due are remembered in such steps and so far ahead; polling finds later ones."""

SILENT = Reply(outcome=Outcome.UNKNOWN, reason="the relay that sent it ended without recording a reply")
FAILED_OVER = Reply(
    outcome=Outcome.UNKNOWN, reason="PostgreSQL failed over since, and may lack an attempt that was made"
)
FORGOTTEN = Reply(outcome=Outcome.UNKNOWN, reason="the provider may have forgotten the key by now")
STOPPED = Reply(outcome=Outcome.UNKNOWN, reason="the relay was stopped before there was an answer")
UNSURE = Reply(outcome=Outcome.NOT_SENT, reason="the start may have been recorded, nothing was sent")


class Sender:
    """Sends the intents of one provider, as many at once as its settings allow."""

    def __init__(
        self,
        provider: Provider,
        links: tuple[DatabaseLink, DatabaseLink, DatabaseLink],
        relay: str,
        poll_s: float,
        baggage: Collection[str],
        *,
        look_s: float = LOOK_S,
    ) -> None:
        self.name = provider.name
        self._provider = provider
        self._settings = settings = provider.settings
        self._rules = ReplyRules(provider.profile, settings.delivery, settings.retry)
        leases, starts, replies = links
        self._leases, self._starts = IntentStore(leases, relay, baggage), IntentStore(starts, relay)
        self._circuits = Circuits(starts, provider.name, settings.breaker)
        own_circuits = Circuits(replies, provider.name, settings.breaker)
        self._replies = ReplyWriter(provider, IntentStore(replies, relay), own_circuits, self._written)
        self._poll_s = poll_s
        self._shares = ConcurrencyShares(settings.concurrency, look_s=look_s)
        # A quarter at once, so that one batch is leased while others are on their way and being settled.
        self._batch = max(1, settings.concurrency // 4)
        # Relays that begin at different lanes do not ask for the same rows at once.
        self._after = {False: f"{random.randrange(100)}", True: ""}  # noqa: S311 - spreads load, guards nothing
        self._gone_s: float | None = 0.0
        """By how much the database's clock is known to have gone back, until that is written down; None: it is."""
        self._resting: dict[str, float] = {}
        self._moments: set[int] = set()
        self._awake = anyio.Event()
        self._stopping = False
        self._sends: TaskSet | None = None

    def wake(self) -> None:
        """Look for intents now: there may be some to send."""
        self._awake.set()

    def stop(self) -> None:
        """Lease nothing more; `run` returns when every attempt is settled."""
        self._stopping = True
        self._awake.set()

    def abandon(self) -> None:
        """Wait no longer for replies: attempts without one are settled as unknown."""
        if self._sends is not None:
            self._sends.cancel()

    async def run(self) -> None:
        """Send until stopped."""
        async with anyio.create_task_group() as settling_tasks:
            settling_tasks.start_soon(lasting, self._replies.run)
            try:
                async with TaskSet(self.wake) as sends:
                    self._sends = sends
                    while not self._stopping:
                        liveness.beat("send", self.name, within_s=LATE_S)
                        sends.check()
                        await self._step(sends)
            finally:
                liveness.ended("send", self.name)
                self._replies.close()

    async def _step(self, sends: TaskSet) -> None:
        try:
            if self._shares.free and await self.one_pass(sends):
                return
        except DatabaseUnavailable:
            await anyio.sleep(AGAIN_S)
            return
        await self._rest()

    async def one_pass(self, sends: TaskSet) -> bool:
        """Lease due intents, record that their attempts begin, send them; replies are settled as they come in.

        Return True where there may be more to do at once.
        """
        if self._gone_s is not None:
            await self._shorten_waits(self._gone_s)
        depth = self._shares.depth(STEPS)
        look = depth > 0
        found = await self._lease(depth)
        if found.gone_s:
            # Nothing is sent before it is written down that first attempts are longer ago than they look.
            self._gone_s = found.gone_s
            await self._put_back(found.leased, [])
            return True
        whole, self._after[look] = not self._after[look], found.after
        if found.leased:
            announce("relay.leased")
            if found.lapsed:
                _log_taken_over(self.name, found.lapsed)
            allowed = await self._circuits.admitted(found.leased, found.now)
            allowed = await self._within_rate(allowed)
            await self._put_back(found.leased, allowed)
            self._shares.take(allowed)
            to_send = [each for each in allowed if self._is_to_be_sent(each, sends)]
            sends.start(self._begin(to_send, sends))
        return found.found > 0 or look or not whole or bool(found.after)

    async def _shorten_waits(self, gone_s: float) -> None:
        """Let no intent wait by a clock that has gone back since, nor look younger than it is."""
        settings = self._settings
        await self._starts.shorten_waits(
            self.name,
            gone_s=gone_s,
            timeout_s=settings.timeout_s,
            wait_s=settings.retry.maximum_s,
        )
        self._gone_s = None
        if gone_s:
            log.warning(
                "%s: PostgreSQL's clock went back by %.0f s; leases and waits written by the old one were shortened",
                self.name,
                gone_s,
            )
            announce("clock.back")

    async def _lease(self, depth: int) -> LeaseResult:
        """Lease due intents; first of all, and by a walk of its own, those for destinations without their share."""
        look, crowd = depth > 0, self._shares.crowd()
        found = await self._leases.lease(
            self.name,
            after=self._after[look],
            most=min(self._shares.free, self._batch),
            steps=STEPS,
            timeout_s=self._settings.timeout_s,
            resting=self._still_resting(),
            crowd=crowd,
            look=depth,
            others_only=look and self._shares.found and bool(self._after[look]),
        )
        if look:
            self._shares.looked(found, crowd)
        return found

    async def _begin(self, batch: Sequence[LeasedIntent], sends: TaskSet) -> None:
        """Render intents, record their attempts and send them, while the next batch is being leased."""
        try:
            for each in await self._started(await self._prepared(batch)):
                attempt_spans.begin(each, self._provider)
                future = begin_attempt(self._provider, each.request)
                if future is None:
                    sends.start(self._send(each))
                else:
                    sends.watch(future, partial(self._answered, each))
        except DatabaseUnavailable:
            self._awake.set()

    def _is_to_be_sent(self, leased: LeasedIntent, sends: TaskSet) -> bool:
        """Return True where its attempt may begin now; if not, look it up, or settle it without a reply."""
        silent = leased.state is IntentState.UNKNOWN
        standing = self._standing(leased)
        what = (state_machine.resolve_unknown if silent else state_machine.may_send)(standing, self._rules)
        if what is UnknownPolicy.LOOKUP:
            sends.start(self._look_up(leased))
        elif silent or what is UnknownPolicy.RECONCILE:
            step = state_machine.after_no_reply(standing, self._rules, _chance())
            reply = FORGOTTEN
            if silent:
                reply = SILENT if leased.attempt else FAILED_OVER
            self._replies.put(Settled(leased, reply, step, tried=silent, heard=False))
        else:
            return True
        return False

    async def _prepared(self, batch: Sequence[LeasedIntent]) -> list[LeasedIntent]:
        """Return those with bytes to send: stored ones, or rendered now for the first attempt and all later ones."""
        prepared = []
        for each in batch:
            if not each.rendered:
                wire = prepare(self._provider, each.request)
                if isinstance(wire, Reply):
                    self._conclude(each, wire, tried=False, heard=False)
                    continue
                each.request = msgspec.structs.replace(each.request, wire=wire)
            prepared.append(each)
        fresh = [each for each in prepared if each.since_first_s is None]
        hints = await lookup_hints(self._provider, [each.request for each in fresh])
        for each, hint in zip(fresh, hints, strict=True):
            each.lookup_hint = hint
        return prepared

    async def _started(self, batch: Sequence[LeasedIntent]) -> list[LeasedIntent]:
        """Return those whose attempt is on record. Where the database does not answer, nothing is sent."""
        if not batch:
            return []
        for each in batch:
            each.attempt, each.spent = each.attempt + 1, each.spent + 1
        try:
            begun = await self._starts.start(batch, horizon(self._rules.profile))
        except DatabaseUnavailable:
            for each in batch:
                self._conclude(each, UNSURE, tried=False, heard=False)
            raise
        announce("relay.started")
        if len(begun) < len(batch):
            sent = {each.seq for each in begun}
            self._shares.give_back(each for each in batch if each.seq not in sent)
        return begun

    async def _send(self, leased: LeasedIntent) -> None:
        try:
            reply = await attempt(self._provider, leased.request)
        except asyncio.CancelledError:
            self._conclude(leased, STOPPED, heard=False)
            raise
        announce("relay.replied")
        self._conclude(leased, reply)

    def _answered(self, leased: LeasedIntent, future: asyncio.Future[Reply]) -> None:
        announce("relay.replied")
        if future.cancelled():
            self._conclude(leased, STOPPED, heard=False)
        else:
            self._conclude(leased, result_of(self._provider, future))

    async def _look_up(self, leased: LeasedIntent) -> None:
        attempt_spans.look_up(leased, self._provider)
        if not leased.rendered:  # by the record; the attempt that is in doubt sent what is rendered now
            wire = prepare(self._provider, leased.request)
            if isinstance(wire, bytes):
                leased.request = msgspec.structs.replace(leased.request, wire=wire)
        reply = await lookup(self._provider, leased.request)
        attempt_spans.end(leased, reply)
        announce("relay.looked_up")
        step = state_machine.after_lookup(reply, self._standing(leased), self._rules, _chance())
        tried = reply.outcome is not Outcome.RETRY
        self._replies.put(Settled(leased, reply, step, tried=tried, heard=False))

    def _conclude(
        self, leased: LeasedIntent, reply: Reply, *, tried: bool = True, heard: bool = True
    ) -> None:
        attempt_spans.end(leased, reply)
        step = state_machine.after_reply(reply, self._standing(leased), self._rules, _chance())
        self._replies.put(Settled(leased, reply, step, tried=tried, heard=heard))

    def _standing(self, leased: LeasedIntent) -> AttemptState:
        since = leased.since_first()
        return AttemptState(
            leased.spent, since, fresh=since is None, blocks=leased.blocks, doubted=leased.doubted
        )

    async def _within_rate(self, batch: list[LeasedIntent]) -> list[LeasedIntent]:
        """Return as many of each destination as its bucket has tokens for; a destination without any rests."""
        rate = self._settings.rate_per_s
        if rate is None or not batch:
            return batch
        wanted = Counter(each.request.destination for each in batch if each.state is IntentState.LEASED)
        taken = await self._starts.take(self.name, wanted, rate, self._settings.burst)
        left = {}
        for destination, (granted, next_s) in taken.items():
            left[destination] = granted
            if granted < wanted[destination]:
                self._resting[destination] = clock.now() + next_s
        allowed = []
        for each in batch:
            if each.state is IntentState.LEASED:
                left[each.request.destination] -= 1
                if left[each.request.destination] < 0:
                    continue
            allowed.append(each)
        return allowed

    async def _put_back(self, leased: Sequence[LeasedIntent], allowed: Sequence[LeasedIntent]) -> None:
        kept = {each.seq for each in allowed}
        rest = [each for each in leased if each.seq not in kept]
        if rest:
            await self._starts.put_back(rest)

    def _written(self, written: Sequence[Settled], waits: Sequence[float]) -> None:
        """Free the slots of written replies; `waits`: the seconds after which intents will be due."""
        self._shares.give_back(each.leased for each in written)
        now = clock.now()
        self._moments.update(math.ceil((now + wait) / GRAIN_S) for wait in waits if wait < FAR_S)
        self._awake.set()

    def _still_resting(self) -> list[str]:
        now = clock.now()
        self._resting = {name: until for name, until in self._resting.items() if until > now}
        return list(self._resting)

    async def _rest(self) -> None:
        """Wait for a wake-up, for the next moment at which an intent is due, or for the next poll."""
        now = clock.now()
        moments = [*self._resting.values(), *(moment * GRAIN_S for moment in self._moments)]
        with anyio.move_on_after(max(min([self._poll_s, *(moment - now for moment in moments)]), 0.0)):
            await self._awake.wait()
        self._awake = anyio.Event()
        now = clock.now()
        self._moments = {moment for moment in self._moments if moment * GRAIN_S > now}


def _log_taken_over(provider: str, lapsed: Sequence[LeasedIntent]) -> None:
    """Log one line for all whose lease ran out: another relay has died or stood still, or this one did."""
    about = facts(
        provider=provider, count=len(lapsed), intent_key=lapsed[0].request.key, kind="lease_taken_over"
    )
    unsure = sum(each.state is IntentState.UNKNOWN for each in lapsed)
    text = "%s: %d intents are taken over from a relay whose lease ran out (%d may have been sent), the first: %s"
    log.warning(text, provider, len(lapsed), unsure, lapsed[0].request.key, extra=about)


def _chance() -> float:
    return random.random()  # noqa: S311 - jitter
