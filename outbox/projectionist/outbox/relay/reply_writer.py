"""Writes replies, as many as wait in one statement; a reply once known is kept until PostgreSQL has it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import anyio

from projectionist.core.circuit_breaker import State
from projectionist.core.digest import stand_in
from projectionist.core.log_format import facts
from projectionist.core.states import IntentState
from projectionist.core.testpoints import announce
from projectionist.outbox.providers.reply import Outcome, healthy
from projectionist.outbox.relay import attempt_spans
from projectionist.outbox.relay.circuit_breakers import AttemptVerdict, Circuits
from projectionist.outbox.relay.database_link import DatabaseUnavailable

if TYPE_CHECKING:
    from projectionist.outbox.providers.base import Provider
    from projectionist.outbox.providers.reply import Reply
    from projectionist.outbox.relay.intent_store import IntentStore, Settled

log = logging.getLogger("projectionist.outbox")

MOST = 1000
"""Replies in one statement."""

AGAIN_S = 0.5


class ReplyWriter:
    """The replies of one provider on their way into the database."""

    def __init__(
        self,
        provider: Provider,
        store: IntentStore,
        circuits: Circuits,
        written: Callable[[Sequence[Settled], Sequence[float]], None],
    ) -> None:
        self._name, self._system = provider.name, provider.system
        self._ours = type(provider).__module__.startswith("projectionist.")
        self._store = store
        self._circuits = circuits
        self._memory_s = provider.profile.memory_s
        self._written = written
        self._waiting: list[Settled] = []
        self._arrived = anyio.Event()
        self._closing = False

    def put(self, settled: Settled) -> None:
        """Take a reply; returns at once. Bounded by the provider's concurrency: its slot is free when it is written."""
        self._waiting.append(settled)
        self._arrived.set()

    def close(self) -> None:
        """Take no more replies: `run` returns when all are written."""
        self._closing = True
        self._arrived.set()

    async def run(self) -> None:
        """Write until closed."""
        while self._waiting or not self._closing:
            if not self._waiting:
                await self._arrived.wait()
                self._arrived = anyio.Event()
                continue
            batch = self._next_batch()
            pauses = await self._write(batch)
            waits = [each.next.wait_s for each in batch if each.next.wait_s is not None]
            self._written(batch, waits + pauses)

    def _next_batch(self) -> list[Settled]:
        """Take what is to be written next, in its order: of each intent one reply, or a statement met its row twice.

        A relay that overslept leases anew what it has sent itself, and judges it while the late reply comes.
        """
        batch: dict[int, Settled] = {}
        some, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        again = [each for each in some if batch.setdefault(each.leased.seq, each) is not each]
        self._waiting = again + self._waiting
        return list(batch.values())

    async def _write(self, batch: Sequence[Settled]) -> list[float]:
        """Try until the replies are written; a settled intent is not settled twice. Return pauses of circuits."""
        while True:
            try:
                known = await self._store.settle(batch, self._memory_s)
                announce("relay.settled")
                attempt_spans.count(self._name, self._system, batch)
                pauses = await self._inform_circuits(batch)
                break
            except DatabaseUnavailable:
                await anyio.sleep(AGAIN_S)
        self._log(each for each in batch if each.leased.seq in known)
        return pauses

    async def _inform_circuits(self, batch: Sequence[Settled]) -> list[float]:
        verdicts = [
            AttemptVerdict(each.leased.request.destination, each.leased.circuit.epoch, healthy(each.reply))
            for each in batch
            if _concerns_circuit(each)
        ]
        pauses = await self._circuits.record(verdicts) if verdicts else []
        for each in batch:
            if each.reply.hold:
                why = "unset" if each.reply.outcome is Outcome.NOT_SENT else "gone"
                await self._store.hold(self._name, each.leased.request.destination, why)
        return pauses

    def _reason(self, reply: Reply) -> str:
        """Return what may be logged: what a provider of the user's says may quote anything."""
        outcome = reply.outcome.value
        if not reply.reason or self._ours:
            return reply.reason or outcome
        return stand_in(reply.reason, outcome)

    def _log(self, settled: Iterable[Settled]) -> None:
        """Log one line for all that ended alike: an outage of a provider is no reason for a thousand."""
        alike: dict[tuple[IntentState, str], list[str]] = {}
        for each in settled:
            if each.next.state in _FOR_A_PERSON:
                why = (each.next.state, self._reason(each.reply))
                alike.setdefault(why, []).append(each.leased.request.key)
        for (state, reason), keys in alike.items():
            about = facts(provider=self._name, count=len(keys), intent_key=keys[0], kind=f"{state}_{reason}")
            log.warning("%s: %d %s: %s (%s)", self._name, len(keys), state, reason, keys[0], extra=about)


_FOR_A_PERSON = frozenset({IntentState.DEAD, IntentState.RECONCILE, IntentState.HELD})


def _concerns_circuit(settled: Settled) -> bool:
    """Return True for replies that a circuit counts: every failure, and a success after failures."""
    reply: Reply = settled.reply
    if not settled.heard or reply.hold or reply.ours:
        return False
    circuit = settled.leased.circuit
    return not healthy(reply) or circuit.failures > 0 or circuit.state is not State.CLOSED
