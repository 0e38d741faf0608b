"""Operators read intents and act on them: each act is checked against the state, and recorded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.digest import digest
from projectionist.core.errors import ProjectionistError
from projectionist.core.operator import Act
from projectionist.core.postgres.statements import Statements
from projectionist.core.states import IntentState
from projectionist.core.testpoints import announce
from projectionist.outbox.intents.staging import unpack_all

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection

AGAIN = frozenset(
    {IntentState.SCHEDULED, IntentState.READY, IntentState.DEAD, IntentState.RECONCILE, IntentState.HELD}
)
DISCARDED = AGAIN | {IntentState.UNKNOWN}
RESOLVED = frozenset({IntentState.UNKNOWN, IntentState.DEAD, IntentState.RECONCILE})
FOR_A_PERSON = frozenset({IntentState.DEAD, IntentState.RECONCILE, IntentState.HELD})


class IntentNotFound(ProjectionistError):
    """No intent has this key. `projectionist outbox list --each` shows keys."""


class IntentFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects intents; a field that is None selects all. Without `states`, all but those that are settled."""

    states: tuple[IntentState, ...] | None = None
    provider: str | None = None
    destination: str | None = None
    intent: str | None = None
    consumer: str | None = None
    error: str | None = None
    older_s: float | None = None

    def arguments(self) -> tuple[object, ...]:
        """Return the fields in the order the statements take them."""
        states = None if self.states is None else list(self.states)
        return states, self.provider, self.destination, self.intent, self.consumer, self.error, self.older_s


class IntentGroup(msgspec.Struct, frozen=True):
    """Intents that are alike; `sample` is the key of one."""

    state: IntentState
    provider: str
    error: str | None
    count: int
    oldest: datetime
    sample: str


class IntentActionResult(msgspec.Struct, frozen=True):
    """The keys of intents that an act changed, and the states of those that it could not change."""

    changed: list[str]
    unchanged: dict[str, str]


class IntentActions:
    """The actions, over one connection that is in no transaction."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._sql = Statements("projectionist.outbox", schema)

    async def opened(self) -> None:
        """Unpack staged intents, with which every read of intents begins."""
        if await self._connection.fetchval(self._sql["may_unpack_intents"]):
            await unpack_all(self._connection, self._sql)

    async def groups(self, chosen: IntentFilter) -> list[IntentGroup]:
        """Return intents by state, provider and error, the largest group first."""
        await self.opened()
        rows = await self._connection.fetch(self._sql["select_intent_groups"], *chosen.arguments())
        return [msgspec.convert(dict(row), IntentGroup) for row in rows]

    async def each(self, chosen: IntentFilter, limit: int) -> list[Record]:
        """Return intents one by one, the oldest first."""
        await self.opened()
        return await self._connection.fetch(self._sql["select_intents"], *chosen.arguments(), limit)

    async def outcomes(self, keys: Sequence[str]) -> dict[str, str]:
        """Return of these intents how the last attempt has ended: its outcome, and the provider's code."""
        rows = await self._connection.fetch(self._sql["select_attempt_outcomes"], list(keys))
        return {row["key"]: " ".join(filter(None, (row["outcome"], row["status"]))) for row in rows}

    async def show(self, key: str) -> dict[str, Any]:
        """Return one intent, its attempts, and operators' acts on it."""
        await self.opened()
        row = await self._connection.fetchrow(self._sql["select_intent_details"], key)
        if row is None:
            raise _not_found(key)
        attempts = await self._connection.fetch(self._sql["select_attempts"], row["seq"])
        acts = await self._connection.fetch(self._sql["select_intent_audit"], f"intent {key}")
        return {**row, "attempts": [dict(each) for each in attempts], "acts": [dict(each) for each in acts]}

    async def retry(self, keys: Sequence[str], act: Act) -> IntentActionResult:
        """Send these again, now, also those that may have been sent: say so in the reason.

        A dead one that was passed goes to the end of its lane, one that is scheduled too; a held destination is opened.
        """
        return await self._act("retry", keys, AGAIN, act, ("retry_intents",), ("release_destinations",))

    async def discard(self, keys: Sequence[str], act: Act) -> IntentActionResult:
        """Discard these, which are never sent; those behind them go on."""
        return await self._act(
            "discard", keys, DISCARDED, act, ("close_intents", IntentState.DISCARDED, None)
        )

    async def resolve_sent(
        self, keys: Sequence[str], act: Act, *, provider_id: str | None = None
    ) -> IntentActionResult:
        """Settle these as sent: an operator has seen at the provider that they were carried out."""
        return await self._act(
            "resolve-sent", keys, RESOLVED, act, ("close_intents", IntentState.SENT, provider_id)
        )

    async def resolve_not_sent(self, keys: Sequence[str], act: Act) -> IntentActionResult:
        """Send these again: an operator has seen at the provider that they were not carried out."""
        return await self._act("resolve-not-sent", keys, RESOLVED, act, ("retry_intents",))

    async def _act(
        self,
        action: str,
        keys: Sequence[str],
        allowed: frozenset[IntentState],
        act: Act,
        *steps: tuple[str, *tuple[Any, ...]],
    ) -> IntentActionResult:
        """Lock, check, change, record: one transaction."""
        await self.opened()
        async with self._connection.transaction():
            found = await self._locked(keys)
            changed = [key for key, row in found.items() if row["state"] in allowed]
            seqs = [found[key]["seq"] for key in changed]
            for statement, *arguments in steps:
                await self._connection.execute(self._sql[statement], seqs, *arguments)
            errors = [found[key]["error"] for key in changed]  # its text is content, and the trail is kept
            before = [[found[key]["state"] for key in changed], [error and digest(error) for error in errors]]
            await self._connection.execute(
                self._sql["insert_audit_entry"], act.actor, action, act.reason, changed, *before
            )
            announce("outbox.acted")
        return IntentActionResult(
            changed, {key: row["state"] for key, row in found.items() if row["state"] not in allowed}
        )

    async def _locked(self, keys: Sequence[str]) -> dict[str, Record]:
        await self._connection.execute(self._sql["lock_intents"], list(keys))
        rows = await self._connection.fetch(self._sql["lock_intent_states"], list(keys))
        found = {row["key"]: row for row in rows}
        for key in keys:
            if key not in found:
                raise _not_found(key)
        return found


def _not_found(key: str) -> IntentNotFound:
    return IntentNotFound(
        f"no intent has the key {key!r}", remedy="`projectionist outbox list --each` shows keys"
    )
