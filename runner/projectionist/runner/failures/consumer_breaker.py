"""The breaker of a consumer: what many keys fail on at once is not tried on all the others too.

Its state is a row that every batch reads, so that one process opens it for all; while it is half open, the one
process that has taken the probe goes on, in small batches.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from projectionist.core import clock
from projectionist.core.circuit_breaker import Admission, BreakerPolicy, Circuit, State, admit, record
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.testpoints import announce
from projectionist.runner.batch.batch_session import store_of
from projectionist.runner.batch.consumer import Tripped
from projectionist.runner.consumers.registry import registration
from projectionist.runner.failures.failure_window import Probe, Window, seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from asyncpg import Record

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import BreakerLimits as Policy
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.batch.shared_pool import SharedPool
    from projectionist.runner.batch.types import BatchResult

log = logging.getLogger("projectionist.runner")

PROBE_S = 60.0
"""After this long a probe that nobody has reported about may be taken by another process."""
FILTERED = 3
"""So many findings that subjects do not lead to the versions open it: the subjects are wrong, not the aggregates."""


class ConsumerBreaker:
    """One consumer's breaker, as one process sees it."""

    def __init__(self, consumer: Consumer, access: SharedPool) -> None:
        self._consumer = consumer
        self._access = access
        self._policy = _circuit_policy(consumer.policy.breaker)
        self._window = Window(consumer.policy.breaker)
        self._probe: Probe | None = None
        self._epoch = 0
        self._filtered = 0

    @property
    def probing(self) -> bool:
        """Return whether this process goes on to find out if the trouble is over."""
        return self._probe is not None

    async def enter(self) -> None:
        """Take the probe, if there is one to take, before anything is fetched; raise Tripped while it is open."""
        async with self._row() as (store, circuit, now, reason):
            admission, admitted = admit(circuit, self._policy, now)
            if admission is Admission.NONE:
                raise Tripped(reason)
            self._epoch = admitted.epoch
            if admission is Admission.ONE:
                self._probe = Probe(self._consumer.policy.breaker)
                await self._write(store, admitted, reason)
                announce("breaker.half_open")

    async def note(self, applied: Iterable[BatchResult]) -> bool:
        """Take in what a batch did; whether a probe has gone through, so that all may go on."""
        one = seen(applied, clock.now())
        if self._probe is None:
            if reason := self._window.add(one):
                await self._report(reason, ok=False)
            return False
        verdict = self._probe.add(one)
        if verdict is None:
            return False
        await self._report("" if verdict else "keys failed again when some were tried", ok=verdict)
        if verdict:
            self._probe = None
        return verdict

    async def filtered(self) -> None:
        """Note a finding that the consumer's subjects do not lead to the missing versions."""
        self._filtered += 1
        if self._filtered >= FILTERED:
            self._filtered = 0
            await self._report("its subjects= do not lead to versions that its aggregates miss", ok=False)

    async def _report(self, reason: str, *, ok: bool) -> None:
        """Write what this process found; a database that is away hears it with the next failure."""
        try:
            async with self._row() as (store, circuit, now, _):
                if ok and circuit.epoch != self._epoch:
                    return
                changed = record(circuit, self._policy, now, epoch=circuit.epoch, ok=ok)
                if changed == circuit:
                    return
                await self._write(store, changed, reason)
            self._log_change(changed, reason, changed.until - now)
            self._epoch = changed.epoch
            self._window.clear()
        except Exception as error:  # what is not an outage goes up
            if not is_transient(error):
                raise

    def _log_change(self, changed: Circuit, reason: str, pause_s: float) -> None:
        name = self._consumer.definition.name
        if changed.state is State.CLOSED:
            log.info("%s: breaker closed again: some keys were tried and went through", name)
        else:
            log.warning(
                "%s: breaker open, nothing is fetched for %.0f s: %s. `projectionist breaker reset %s` ends it",
                name,
                pause_s,
                reason,
                name,
            )
        announce(f"breaker.{changed.state.value}")

    @asynccontextmanager
    async def _row(self) -> AsyncIterator[tuple[InboxStore, Circuit, float, str]]:
        async with self._access.store(self._consumer) as store, store.connection.transaction():
            await store.run("insert_consumer_breaker")
            row = await store.row("lock_consumer_breaker")
            assert row is not None, "it was placed"
            yield store, circuit_of(row), row["now"], row["reason"]

    async def _write(self, store: InboxStore, circuit: Circuit, reason: str) -> None:
        await store.run(
            "update_consumer_breaker",
            circuit.state.value,
            circuit.epoch,
            circuit.failures,
            circuit.openings,
            circuit.until,
            self._consumer.runner,
            reason,
            circuit.pause_s,
        )


def _circuit_policy(policy: Policy) -> BreakerPolicy:
    """Return the consumer's policy in the words of a circuit: whoever reports a failure has counted already."""
    return BreakerPolicy(failures=1, open_s=policy.open_s, maximum_s=policy.maximum_s, probe_s=PROBE_S)


def circuit_of(row: Record) -> Circuit:
    """Return the circuit that a row holds."""
    return msgspec.convert(
        {name: row[name] for name in ("state", "epoch", "failures", "openings", "until", "pause_s")}, Circuit
    )


async def reset(connection: Connection, schema: str, name: str, act: Act) -> bool:
    """Close the breaker of the consumer `name` and record who did so; whether it was not closed already.

    Raises NotRegistered for a name that the database does not know.
    """
    async with connection.transaction():
        found = await registration(connection, schema, name)
        store = store_of(connection, schema, found["number"])
        if await store.row("close_consumer_breaker") is None:
            return False
        await store.run("insert_audit_entry", "breaker-reset", name, act.actor, act.reason, "{}")
    return True
