"""Operators read intents and act on them: each act is checked against the state, and recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.digest import digest
from projectionist.core.errors import ProjectionistError
from projectionist.core.operator import Act, NotThere, TooLate
from projectionist.core.postgres.statements import Statements
from projectionist.core.states import IntentState
from projectionist.core.testpoints import announce
from projectionist.outbox.intents.staging import unpack_all

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.postgres.connections import Connection, Row

AGAIN = frozenset(
    {IntentState.SCHEDULED, IntentState.READY, IntentState.DEAD, IntentState.RECONCILE, IntentState.HELD}
)
DISCARDED = AGAIN | {IntentState.UNKNOWN}
RESOLVED = frozenset({IntentState.UNKNOWN, IntentState.DEAD, IntentState.RECONCILE})
FOR_A_PERSON = frozenset({IntentState.DEAD, IntentState.RECONCILE, IntentState.HELD})


_GOES_ON = frozenset({IntentState.LEASED, IntentState.STARTED, IntentState.SENT})
_Step = tuple[str, *tuple[Any, ...]]
_Steps = Sequence[_Step]
_RETRY: _Steps = (("retry_intents",), ("release_destinations",))
_DISCARD: _Steps = (("close_intents", IntentState.DISCARDED, None),)


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

    state: str
    """An `IntentState`, or one that only a newer version knows; so are those below."""
    provider: str
    error: str | None
    count: int
    oldest: datetime
    sample: str


class IntentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One intent, as it stands."""

    seq: int
    key: str
    state: str
    provider: str
    destination: str
    class_: str = msgspec.field(name="class")
    scope: str | None
    consumer: str | None
    aggregate: str | None
    attempt: int
    created: datetime
    due: datetime | None
    error: str | None


class StandingLane(msgspec.Struct, frozen=True, kw_only=True):
    """A lane in which others stand behind an intent, its head, that waits for somebody or for a time: `due`."""

    provider: str
    ordering: str
    behind: int
    key: str
    state: str
    attempt: int
    created: datetime
    due: datetime | None
    error: str | None


class GroupsPage(msgspec.Struct, frozen=True):
    """Groups of intents, the lanes that stand, and how the last attempts of samples and heads have ended."""

    all_groups: int
    """Counts all there are; the largest are told."""
    groups: list[IntentGroup]
    lanes: list[StandingLane]
    outcomes: dict[str, str]


class IntentPage(msgspec.Struct, frozen=True):
    """The first of some intents, how many there are, and how the last attempts of those that are shown have ended."""

    count: int
    intents: list[IntentEntry]
    outcomes: dict[str, str]


class IntentActionResult(msgspec.Struct, frozen=True):
    """The keys of intents that an act changed, and the states of those that it could not change."""

    changed: list[str]
    unchanged: dict[str, str]


class SeenIntent(msgspec.Struct, frozen=True):
    """An intent as the operator saw it: its state, and how often it had been tried."""

    key: str
    state: str
    attempts: int


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

    async def lanes(self, provider: str | None, limit: int) -> list[StandingLane]:
        """Return lanes that stand, of all providers or of one, those with the most intents first."""
        await self.opened()
        rows = await self._connection.fetch(self._sql["select_standing_lanes"], provider, limit)
        return [msgspec.convert(dict(row), StandingLane) for row in rows]

    async def groups_page(self, chosen: IntentFilter, limit: int) -> GroupsPage:
        """Return so many groups of those that wait for somebody and of the others, as `groups` does, and of lanes."""
        await self.opened()
        given = (*chosen.arguments(), limit, sorted(FOR_A_PERSON))
        row = await self._connection.fetchrow(self._sql["select_intent_groups_page"], *given)
        assert row is not None, "it always answers"
        decode = msgspec.json.decode
        return GroupsPage(
            row["all_groups"],
            decode(row["groups"], type=list[IntentGroup]),
            decode(row["lanes"], type=list[StandingLane]),
            _outcomes(decode(row["outcomes"])),
        )

    async def page(self, chosen: IntentFilter, limit: int) -> IntentPage:
        """Return the first of the chosen, the oldest first, and how many there are."""
        await self.opened()
        given = (*chosen.arguments(), limit)
        row = await self._connection.fetchrow(self._sql["select_intent_page"], *given)
        assert row is not None, "it always answers"
        decode = msgspec.json.decode
        intents = decode(row["intents"], type=list[IntentEntry])
        return IntentPage(row["count"], intents, _outcomes(decode(row["outcomes"])))

    async def outcomes(self, keys: Sequence[str]) -> dict[str, str]:
        """Return of these intents how the last attempt has ended: its outcome, and the provider's code."""
        rows = await self._connection.fetch(self._sql["select_attempt_outcomes"], list(keys))
        return _outcomes(rows)

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
        return await self._act("retry", keys, AGAIN, act, *_RETRY)

    async def discard(self, keys: Sequence[str], act: Act) -> IntentActionResult:
        """Discard these, which are never sent; those behind them go on."""
        return await self._act("discard", keys, DISCARDED, act, *_DISCARD)

    async def retry_seen(self, seen: SeenIntent, act: Act) -> None:
        """Send one again in the caller's transaction; raise TooLate if it was tried since.

        What is sent meanwhile is left to it: the first of a destination that was held has opened it for all.
        """
        found = (await self._locked([seen.key]))[seen.key]
        if found["state"] not in _GOES_ON:
            _compare(found, seen)
            _refuse("retry", found, AGAIN)
            await self._change("retry", {seen.key: found}, act, _RETRY)

    async def discard_seen(self, seen: SeenIntent, act: Act) -> None:
        """Discard one in the caller's transaction; raise TooLate if it has moved since."""
        found = (await self._locked([seen.key]))[seen.key]
        _compare(found, seen)
        _refuse("discard", found, DISCARDED)
        await self._change("discard", {seen.key: found}, act, _DISCARD)

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
        *steps: _Step,
    ) -> IntentActionResult:
        """Lock, check, change, record: one transaction."""
        await self.opened()
        async with self._connection.transaction():
            found = await self._locked(keys)
            changed = {key: row for key, row in found.items() if row["state"] in allowed}
            await self._change(action, changed, act, steps)
            announce("outbox.acted")
        return IntentActionResult(
            list(changed), {key: row["state"] for key, row in found.items() if key not in changed}
        )

    async def _change(self, action: str, locked: Mapping[str, Record], act: Act, steps: _Steps) -> None:
        """Change what is locked, and record it."""
        seqs = [row["seq"] for row in locked.values()]
        for statement, *arguments in steps:
            await self._connection.execute(self._sql[statement], seqs, *arguments)
        errors = [row["error"] for row in locked.values()]  # its text is content, and the trail is kept
        before = [[row["state"] for row in locked.values()], [error and digest(error) for error in errors]]
        await self._connection.execute(
            self._sql["insert_audit_entry"], act.actor, action, act.reason, list(locked), *before
        )

    async def _locked(self, keys: Sequence[str]) -> dict[str, Record]:
        await self._connection.execute(self._sql["lock_intents"], list(keys))
        rows = await self._connection.fetch(self._sql["lock_intent_states"], list(keys))
        found = {row["key"]: row for row in rows}
        for key in keys:
            if key not in found:
                raise _not_found(key)
        return found


def _outcomes(rows: Iterable[Row]) -> dict[str, str]:
    """Return by key how last attempts have ended."""
    return {row["key"]: " ".join(filter(None, (row["outcome"], row["status"]))) for row in rows}


def _compare(found: Record, seen: SeenIntent) -> None:
    """Raise TooLate if the operator decides about something else than what stands there."""
    if (found["state"], found["attempt"]) != (seen.state, seen.attempts):
        told = f"it is {found['state']} by now, after {found['attempt']} attempts"
        raise TooLate(told, remedy="Look again before you decide")


def _refuse(action: str, found: Record, allowed: frozenset[IntentState]) -> None:
    if found["state"] not in allowed:
        raise NotThere(f"it is {found['state']}, which {action} does not change")


def _not_found(key: str) -> IntentNotFound:
    return IntentNotFound(
        f"no intent has the key {key!r}", remedy="`projectionist outbox list --each` shows keys"
    )
