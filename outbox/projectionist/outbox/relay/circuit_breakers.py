"""The circuits of one provider's destinations, kept in PostgreSQL so that all relays share them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.circuit_breaker import Admission, BreakerPolicy, Circuit, State, admit, record
from projectionist.core.digest import short_destination
from projectionist.core.states import IntentState
from projectionist.core.testpoints import announce
from projectionist.outbox.relay.intent_store import circuit_of

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.outbox.relay.database_link import DatabaseLink
    from projectionist.outbox.relay.intent_store import LeasedIntent

log = logging.getLogger("projectionist.outbox")


class AttemptVerdict(msgspec.Struct, frozen=True):
    """One attempt's verdict on its destination: up or not. `epoch`: of the circuit that admitted it."""

    destination: str
    epoch: int
    up: bool


class Circuits:
    """Admits attempts, and records their verdicts. A healthy destination costs no statement at all."""

    def __init__(self, link: DatabaseLink, provider: str, policy: BreakerPolicy) -> None:
        self._link = link
        self._provider = provider
        self._policy = policy

    async def admitted(self, leased: Sequence[LeasedIntent], now: float) -> list[LeasedIntent]:
        """Return those to go on with: of a destination whose pause is over, one, by the relay that asks first.

        The circuit stops no intent that may have been sent already.
        """
        probed: set[str] = set()
        allowed = []
        for each in leased:
            if each.circuit.state is State.CLOSED or each.state is IntentState.UNKNOWN:
                allowed.append(each)
            elif each.request.destination not in probed:
                probed.add(each.request.destination)
                if await self._probe(each, now):
                    allowed.append(each)
        return allowed

    async def record(self, verdicts: Sequence[AttemptVerdict]) -> list[float]:
        """Fold verdicts, in the order they came in, into the circuits of their destinations; return pauses in s."""
        pauses = []
        names = sorted({each.destination for each in verdicts})
        async with self._link.lent() as connection, connection.transaction():
            await connection.execute(self._link.sql["insert_missing_circuits"], self._provider, names)
            rows = await connection.fetch(self._link.sql["lock_circuits"], self._provider, names)
            for row in rows:
                before = after = circuit_of(row)
                for each in verdicts:
                    if each.destination == row["destination"]:
                        after = record(after, self._policy, row["now"], epoch=each.epoch, ok=each.up)
                if after != before:
                    await self._keep(connection, row["destination"], before, after)
                    self._log(row["destination"], before, after, row["now"])
                if after.state is State.OPEN:
                    pauses.append(after.until - row["now"])
        return pauses

    async def _probe(self, each: LeasedIntent, now: float) -> bool:
        admission, probing = admit(each.circuit, self._policy, now)
        if admission is not Admission.ONE:
            return False
        async with self._link.lent() as connection:
            kept = await self._keep(connection, each.request.destination, each.circuit, probing)
        each.circuit = probing
        return kept

    async def _keep(self, connection: Connection, destination: str, before: Circuit, after: Circuit) -> bool:
        epoch = await connection.fetchval(
            self._link.sql["update_circuit"],
            self._provider,
            destination,
            before.epoch,
            after.state.value,
            after.epoch,
            after.failures,
            after.openings,
            after.until,
            after.pause_s,
        )
        return epoch is not None

    def _log(self, destination: str, before: Circuit, after: Circuit, now: float) -> None:
        if after.state is State.OPEN:
            log.warning(
                "%s: %s has failed %d times in a row, nothing is sent there for %.1f s",
                self._provider,
                short_destination(destination) or "its destination",
                after.failures,
                after.until - now,
            )
            announce("circuit.opened")
        elif before.state is not State.CLOSED and after.state is State.CLOSED:
            log.info("%s: %s is back", self._provider, short_destination(destination) or "its destination")
            announce("circuit.closed")
