"""Acts on parked and failed events for an operator: each act is compared with what stands there, then recorded.

Every action runs under the consumer's barrier and the aggregate's position lock, so that a batch and an action never
act on the same event at once; the second one sees what the first has done and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.operator import Act, NotThere, TooLate
from projectionist.core.states import AggregateState, DecisionKind, Finding, InboxState
from projectionist.core.testpoints import announce

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.runner.batch.inbox_store import InboxStore
    from projectionist.runner.batch.writes import Identity

BY_HAND = 0
"""Under which number of a runner acts are counted: no process has it."""
GAP_HEADS = frozenset({AggregateState.GAP, AggregateState.WAITING})
FAILED_HEADS = frozenset({AggregateState.FAILED, AggregateState.WAITING})


class SeenHead(msgspec.Struct, frozen=True):
    """The head of an aggregate as the operator saw it: its position, and the event it waits for."""

    version: int
    event: tuple[str, str]
    attempts: int


class LockedAggregate(msgspec.Struct):
    """The state of an aggregate, under its lock."""

    aggregate: str
    version: int
    head: AggregateState
    finding: str | None
    parked: int
    first: Record | None
    """The parked event it waits for: the failed one, else the one with the lowest version."""

    @property
    def failed(self) -> bool:
        """Return whether an event that failed is the head, not a gap."""
        return self.head in FAILED_HEADS and self.finding is None


class ParkedActions:
    """The verbs for one consumer."""

    def __init__(self, store: InboxStore) -> None:
        self._store = store

    async def retry(self, aggregate: str, act: Act, *, seen: SeenHead | None = None) -> None:
        """Try the head of this aggregate again now, with one more try in its budget.

        `seen` is what the operator saw; raises TooLate if the aggregate has moved, or was tried, since.
        """
        async with self._lock_head(aggregate, seen) as locked:
            if locked.head in {AggregateState.CLEAR, AggregateState.DRAINING}:
                raise NotThere(f"nothing of {aggregate} waits to be tried again: it is {locked.head}")
            if locked.failed and locked.first is not None:
                await self._store.run("allow_one_more_attempt", locked.first["source"], locked.first["id"])
            await self._move(locked, AggregateState.FAILED if locked.failed else AggregateState.GAP)
            await self._record("retry", locked, act)

    async def skip(self, aggregate: str, act: Act, *, seen: SeenHead | None = None) -> None:
        """Step over the failed head of this aggregate, in every rebuild too; what waits behind it drains at once.

        `seen` is what the operator saw; raises TooLate if the aggregate has moved, or was tried, since.
        """
        async with self._lock_head(aggregate, seen) as locked:
            if not locked.failed or locked.first is None:
                raise NotThere(
                    f"no failed event is the head of {aggregate}: it is {locked.head}",
                    remedy="A gap is accepted with accept-gap, a parked follower is dropped with discard",
                )
            await self._decide(DecisionKind.SKIP, locked, locked.first, act)
            await self._settle(locked.first, InboxState.SKIPPED)
            await self._store.rows("close_settled_incidents")
            locked.parked -= 1
            if locked.first["lowest"]:
                locked.version = locked.first["version"]
            await self._move(locked, AggregateState.DRAINING if locked.parked else AggregateState.CLEAR)

    async def accept_gap(self, aggregate: str, first: int, last: int, act: Act) -> None:
        """Step over the missing versions `first`..`last`, in every rebuild too; what waits behind drains at once."""
        async with self._lock_head(aggregate, None) as locked:
            _not_moved(locked, first - 1)
            if locked.head not in GAP_HEADS or locked.failed or locked.first is None:
                raise NotThere(f"{aggregate} misses no version: it is {locked.head}")
            if not first <= last < locked.first["version"]:
                raise NotThere(
                    f"versions {first} to {last} of {aggregate} are not what is missing",
                    remedy=f"Missing are {locked.version + 1} to {locked.first['version'] - 1}",
                )
            await self._store.run(
                "insert_decision",
                DecisionKind.ACCEPT_GAP,
                aggregate,
                first,
                last,
                None,
                None,
                None,
                None,
                act.actor,
                act.reason,
            )
            locked.version = last
            await self._move(locked, AggregateState.DRAINING)
            await self._record("accept-gap", locked, act)
            await self._store.rows("close_settled_incidents")

    async def discard(self, identity: Identity, act: Act, *, attempts: int | None = None) -> None:
        """Drop one parked event. In an aggregate it is stepped over in its turn; a failed head is for `skip`.

        `attempts` is how often the operator saw it tried; raises TooLate if it was tried since.
        """
        async with self._entry(identity) as (locked, entry):
            if attempts is not None and entry["attempts"] != attempts:
                raise _tried_again(entry, attempts)
            if locked is not None and locked.failed and entry["version"] == _first_version(locked):
                raise NotThere(f"this event is the failed head of {locked.aggregate}", remedy="Use skip")
            await self._decide(DecisionKind.DISCARD, locked, entry, act)
            if locked is None:
                await self._settle(entry, InboxState.DISCARDED)
            elif locked.finding == Finding.IMPLAUSIBLE and entry["version"] == _first_version(locked):
                # Its turn will never come, and its version is not one of the aggregate's.
                await self._settle(entry, InboxState.DISCARDED)
                locked.parked -= 1
                await self._move(locked, AggregateState.GAP if locked.parked else AggregateState.CLEAR)
            else:
                await self._store.run("mark_parked_discarded", entry["source"], entry["id"])
                await self._store.run("set_inbox_state", entry["source"], entry["id"], InboxState.DISCARDED)
            await self._store.rows("close_settled_incidents")

    async def edit(self, identity: Identity, data: bytes, digest: bytes, act: Act) -> None:
        """Give a parked event corrected bytes (`digest`: their hash); identity and first hash stay what they are."""
        async with self._entry(identity) as (locked, entry):
            await self._store.run("replace_parked_payload", entry["source"], entry["id"], data, digest)
            await self._decide(DecisionKind.EDIT, locked, entry, act, data=data, digest=digest)
            if locked is not None and locked.failed and entry["version"] == _first_version(locked):
                await self._move(locked, AggregateState.FAILED)

    async def retry_entry(self, identity: Identity, act: Act, *, attempts: int | None = None) -> None:
        """Try a parked event without order again now; events in order are retried by their aggregate.

        `attempts` is how often the operator saw it tried; raises TooLate if it was tried since.
        """
        async with self._entry(identity) as (locked, entry):
            if locked is not None:
                raise NotThere(
                    f"this event waits in the order of {locked.aggregate}", remedy="Retry its aggregate"
                )
            if attempts is not None and entry["attempts"] != attempts:
                raise _tried_again(entry, attempts)
            await self._store.run("allow_one_more_attempt", entry["source"], entry["id"])
            await self._record_on("retry", "/".join(identity), act)

    @asynccontextmanager
    async def _lock_head(self, aggregate: str, seen: SeenHead | None) -> AsyncIterator[LockedAggregate]:
        async with self._store.connection.transaction():
            await self._store.enter()
            locked = await self._locked(aggregate)
            if seen is not None:
                _compare(locked, seen)
            if locked.head == AggregateState.DRAINING:
                raise TooLate(f"{aggregate} is being drained at this moment", remedy="Look again in a second")
            yield locked
            announce("action.written")

    @asynccontextmanager
    async def _entry(self, identity: Identity) -> AsyncIterator[tuple[LockedAggregate | None, Record]]:
        async with self._store.connection.transaction():
            await self._store.enter()
            where = await self._store.row("select_parked_event", *identity)
            locked = (
                await self._locked(where["aggregate"]) if where is not None and where["ordered"] else None
            )
            # Read again under the lock: a drain may have settled the event while this waited.
            entry = await self._store.row("lock_parked_event", *identity)
            if entry is None:
                row = (await self._store.known([identity])).get(identity)
                raise TooLate(
                    f"event {identity[1]!r} of source {identity[0]!r} is not parked",
                    remedy=f"Its state is {row['state']}"
                    if row is not None
                    else "This consumer has never seen it",
                )
            yield locked, entry
            announce("action.written")

    async def _locked(self, aggregate: str) -> LockedAggregate:
        rows = await self._store.positions([aggregate])
        if not rows:
            raise NotThere(f"this consumer has never seen aggregate {aggregate!r}")
        row = rows[0]
        first = await self._store.row("select_head_event", aggregate)
        return LockedAggregate(
            aggregate=aggregate,
            version=row["version"],
            head=AggregateState(row["head"]),
            finding=row["finding"],
            parked=row["parked"],
            first=first,
        )

    async def _move(self, locked: LockedAggregate, head: AggregateState) -> None:
        await self._store.run(
            "set_position",
            locked.aggregate,
            locked.version,
            head,
            locked.parked,
            head != AggregateState.CLEAR,
        )
        await self._store.run("mark_aggregate_dirty", locked.aggregate)

    async def _settle(self, entry: Record, state: InboxState) -> None:
        await self._store.run("delete_parked_events", entry["source"], [entry["id"]])
        await self._store.run("set_inbox_state", entry["source"], entry["id"], state)
        # The row of one act may be waited for, since its holder wants nothing more that is not its own.
        await self._store.count(BY_HAND, Counter({(entry["type"], state): 1}))

    async def _decide(
        self,
        kind: DecisionKind,
        locked: LockedAggregate | None,
        entry: Record,
        act: Act,
        *,
        data: bytes | None = None,
        digest: bytes | None = None,
    ) -> None:
        await self._store.run(
            "insert_decision",
            kind,
            entry["aggregate"],
            entry["version"],
            None,
            entry["source"],
            entry["id"],
            data,
            digest,
            act.actor,
            act.reason,
        )
        hashes = None if digest is None else {"first": entry["hash"].hex(), "edited": digest.hex()}
        await self._record_on(kind, locked.aggregate if locked is not None else entry["id"], act, hashes)

    async def _record(self, action: str, locked: LockedAggregate, act: Act) -> None:
        await self._record_on(action, locked.aggregate, act)

    async def _record_on(
        self, action: str, thing: str, act: Act, detail: Mapping[str, str] | None = None
    ) -> None:
        text = msgspec.json.encode(detail or {}).decode()
        await self._store.run("insert_audit_entry", action, thing, act.actor, act.reason, text)


def _first_version(locked: LockedAggregate) -> int | None:
    return None if locked.first is None else locked.first["version"]


def _compare(locked: LockedAggregate, seen: SeenHead) -> None:
    """Raise TooLate if the operator decides about something else than what stands there."""
    _not_moved(locked, seen.version)
    first = locked.first
    if first is None or (first["source"], first["id"]) != seen.event:
        raise TooLate(
            f"{locked.aggregate} waits for another event by now", remedy="Look again before you decide"
        )
    if first["attempts"] != seen.attempts:
        raise _tried_again(first, seen.attempts)


def _tried_again(entry: Record, attempts: int) -> TooLate:
    return TooLate(
        f"event {entry['id']!r} was tried again meanwhile: {entry['attempts']} attempts, not {attempts}",
        remedy="Look again before you decide",
    )


def _not_moved(locked: LockedAggregate, version: int) -> None:
    if locked.version != version:
        raise TooLate(
            f"{locked.aggregate} stands at version {locked.version} by now, not at {version}",
            remedy="Look again before you decide",
        )
