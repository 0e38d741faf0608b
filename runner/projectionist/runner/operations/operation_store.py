"""The statements about operations, on one connection that is in no transaction unless it is said otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg
import msgspec

from projectionist.core.operator import NotThere, TooLate
from projectionist.core.postgres import connections
from projectionist.core.postgres.statements import Statements
from projectionist.core.testpoints import announce
from projectionist.outbox.admin.intent_actions import IntentActions
from projectionist.runner.operations.operation import (
    BRIEF_S,
    CARRIED_S,
    ItemReport,
    OperationKind,
    OperationReport,
    SampleReport,
    SampleStanding,
    bounds,
    in_short,
)

if TYPE_CHECKING:
    from asyncpg import Record

    from projectionist.core.operator import Act
    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Postgres
    from projectionist.core.states import ItemState, OperationOutcome
    from projectionist.runner.operations.operation import Chosen

MOST = 1_000_000
"""So many items an operation has at most."""
LOOK = "Look at it: `projectionist operations show {}`"
SILENT_S = 5.0
"""A long act that has given no sign of life for so long, and none since the same one was begun again, is gone."""
GROUPS = 50
"""So many of its groups are shown."""
NAME = "projectionist operations"
"""What PostgreSQL knows connections by over which it is told how an operation goes."""
DECIDED = "somebody has decided about it meanwhile"


class OperationLost(TooLate):
    """Another process carries the operation out by now, or it has ended."""


class StopRequested(Exception):
    """Somebody has asked for an end."""


class Grant(msgspec.Struct, frozen=True):
    """The right to carry an operation out; it ends with the next one's."""

    number: int
    epoch: int


class OperationItem(msgspec.Struct, frozen=True):
    """One parked event, entry of quarantine or intent that an operation is about, as it stood when that began."""

    place: int
    judged: bool
    consumer: int
    source: str | None
    id: str | None
    incarnation: int | None
    seq: int | None
    """Where an entry of quarantine stands in its stream; None of anything else."""
    key: str | None
    """Of an intent; None of anything else."""
    seen: str | None
    """Of an intent: its state."""
    aggregate: str | None
    """None: it waits in no order."""
    version: int
    attempts: int


class OperationPage(NamedTuple):
    """What became of the items of an operation."""

    samples: list[SampleReport]
    """Of its first groups."""
    groups: int
    not_done: list[ItemReport]


_ITEMS = {"parked": "parked", "quarantine": "quarantined", "intents": "intent"}


class _Nothing(Exception):
    """Takes back what was begun for nothing."""


class OperationStore:
    """Begins operations, shows them, has them carried out by one process at a time, and ends them."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection = connection
        self.schema = schema
        self._sql = Statements("projectionist.runner", schema)

    # -- begin and decide ----------------------------------------------------------------------------------------

    async def begin(
        self,
        kind: OperationKind,
        chosen: Chosen,
        act: Act,
        owner: str,
        *,
        rate: float,
        patience_s: float,
        most: int = MOST,
    ) -> Grant | None:
        """Put an operation on record with what is chosen now, at most so many; None where nothing is.

        Whoever begins it carries it out, under the name `owner`.
        """
        about, items = _json(in_short(chosen)), f"insert_{_ITEMS[kind.about]}_items"
        waits = not kind.startswith("discard_")
        if kind.about == "intents":
            await IntentActions(self.connection, self.schema).opened()
        try:
            async with self.connection.transaction():
                given = (kind, about, act.actor, act.reason, rate, patience_s, owner)
                number: int = await self._value("insert_operation", *given)
                chooses = (number, bounds(kind), waits, most, *_arguments(chosen))
                if not await self._value(items, *chooses):
                    raise _Nothing
                await self._record(number, "begin", act, {"kind": kind})
                announce("operation.beginning")
        except _Nothing:
            return None
        announce("operation.begun")
        return Grant(number, 1)

    async def begin_long_act(
        self, kind: OperationKind, about: Mapping[str, object], act: Act, owner: str
    ) -> Grant:
        """Put a long act on record that `owner` carries out itself; the same one that nobody does has ended then."""
        given = (kind, _json(about), act.actor, act.reason, owner, CARRIED_S, f"begun again by {act.actor}")
        return Grant(await self._value("insert_long_act", *given), 1)

    async def forget_brief_act(self, grant: Grant) -> None:
        """Remove a long act that was done at once."""
        await self._value("delete_brief_act", grant.number, BRIEF_S)

    async def beat(self, grant: Grant, phase: str, total: int, done: int, per_s: float) -> None:
        """Say how far a long act is. Raises OperationLost under an older grant, StopRequested where it is to end."""
        told = (phase, total, done, per_s, SILENT_S, CARRIED_S)
        _ours(grant, await self._rows("beat_long_act", *msgspec.structs.astuple(grant), *told))

    async def take_up(self, number: int, act: Act, owner: str) -> Grant:
        """Have `owner` carry on with what nobody does; raise TooLate while somebody does, or where it has ended."""
        found = await self.show(number)
        if found.kind not in set(OperationKind):
            raise TooLate(
                f"this version knows no operation like {number}: {found.kind}",
                remedy="Take it up by the version that began it, or by a newer one",
            )
        if found.ended is None and not found.is_group:
            raise TooLate(
                f"operation {number} ({found.words[-1]}) is not taken up",
                remedy="Begin it again: a rebuild goes on where it stood",
            )
        async with _step_of(number), self.connection.transaction():
            epoch = await self._value("take_up_operation", number, owner, CARRIED_S)
            if epoch is not None:
                await self._record(number, "take-up", act)
        if epoch is None:
            raise _not_taken(await self.show(number))
        announce("operation.taken")
        return Grant(number, epoch)

    async def ask_to_stop(self, number: int, act: Act) -> bool:
        """Have an operation stop; return whether it has ended already, since nobody carries it out."""
        note = f"{act.actor}: {act.reason}"
        async with _step_of(number), self.connection.transaction():
            given = (number, act.actor, act.reason, CARRIED_S, note)
            ended = await self._value("ask_operation_to_stop", *given)
            if ended is not None:
                await self._record(number, "stop", act)
        if ended is None:
            raise _ended(await self.show(number))
        return bool(ended)

    # -- look ----------------------------------------------------------------------------------------------------

    async def each(
        self, *, only_open: bool = False, before: int | None = None, limit: int = 50
    ) -> list[OperationReport]:
        """Return operations, the newest first."""
        rows = await self._rows("select_operations", None, only_open, before, limit, CARRIED_S)
        return [report_of(dict(row)) for row in rows]

    async def show(self, number: int) -> OperationReport:
        """Return one; raise NotThere where there is none of this number."""
        rows = await self._rows("select_operations", number, False, None, 1, CARRIED_S)
        if not rows:
            raise await self._not_there(number)
        return report_of(dict(rows[0]))

    async def _not_there(self, number: int) -> NotThere:
        if number < (await self._value("select_newest_operation") or 0):
            return NotThere(
                f"operation {number} is on record no more",
                remedy="A purge, erase or preview that was done at once leaves none, and retention removes what "
                "ended long ago: `projectionist audit` says what was done",
            )
        return NotThere(
            f"there is no operation {number}",
            remedy="`projectionist operations list` shows those there are; "
            "a purge, erase or preview that was done at once leaves none",
        )

    async def samples(self, number: int) -> list[SampleReport]:
        """Return what became of each sample of an operation's first groups."""
        rows = await self._rows("select_operation_samples", number, GROUPS)
        return [SampleReport(**dict(row)) for row in rows]

    async def groups(self, number: int) -> int:
        """Return how many groups of what is alike an operation has."""
        found: int = await self._value("count_operation_groups", number)
        return found

    async def not_done(self, number: int, limit: int = 50) -> list[ItemReport]:
        """Return items that failed again or were refused."""
        rows = await self._rows("select_operation_failures", number, limit)
        return [ItemReport(**dict(row)) for row in rows]

    async def page(self, number: int, limit: int) -> OperationPage:
        """Return what `samples`, `groups` and `not_done` do, by one statement."""
        (row,) = await self._rows("select_operation_page", number, GROUPS, limit)
        samples = msgspec.json.decode(row["samples"], type=list[SampleReport])
        return OperationPage(
            samples, row["groups"], msgspec.json.decode(row["failures"], type=list[ItemReport])
        )

    async def touched(self, number: int, limit: int) -> list[ItemReport]:
        """Return items that were acted on, the first ones."""
        rows = await self._rows("select_touched_items", number, limit)
        return [ItemReport(**dict(row)) for row in rows]

    # -- carry out -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def step(self, grant: Grant) -> AsyncIterator[None]:
        """Open a transaction for one step, which is a sign of life, and which no other process can take from it.

        Raises OperationLost under an older grant, StopRequested where it is to end.
        """
        async with self.connection.transaction():
            _ours(grant, await self._rows("hold_operation", grant.number, grant.epoch))
            yield
            announce("operation.stepping")
        announce("operation.stepped")

    async def standing(self, grant: Grant) -> SampleStanding | None:
        """Return the sample that it is at; None: no item is open."""
        rows = await self._rows("select_sample", grant.number)
        return SampleStanding(**dict(rows[0])) if rows else None

    async def waiting(self, grant: Grant, at: SampleStanding, limit: int) -> list[OperationItem]:
        """Return the next items of a sample that were not touched."""
        places = (at.first, at.first + at.items - 1)
        rows = await self._rows("select_waiting_items", grant.number, *places, limit)
        return [OperationItem(**dict(row)) for row in rows]

    async def set_state(self, grant: Grant, item: OperationItem, state: ItemState, note: str | None) -> None:
        """Say what was done about an item, inside a step."""
        await self._value("set_item_state", grant.number, item.place, state, note)

    async def judge(self, grant: Grant) -> int:
        """Look what became of what was tried, inside a step; of how many that is known now."""
        judged: int = await self._value("judge_items", grant.number, DECIDED)
        return judged

    async def leave(self, grant: Grant, at: SampleStanding) -> None:
        """Leave the rest of a group alone, inside a step."""
        await self._value("leave_samples", grant.number, at.alike)

    async def end(self, grant: Grant, outcome: OperationOutcome, note: str | None = None) -> None:
        """End it, if it is still ours."""
        await self._value("end_operation", grant.number, grant.epoch, outcome, note)

    async def let_go(self, grant: Grant, note: str) -> None:
        """Have nobody carry it out, if it is still ours: whoever takes it up goes on where it stands."""
        await self._value("let_operation_go", grant.number, grant.epoch, note)

    # -- statements ----------------------------------------------------------------------------------------------

    async def _record(self, number: int, verb: str, act: Act, detail: object = None) -> None:
        given = (number, f"{verb}-operation", act.actor, act.reason, _json(detail or {}))
        await self._value("insert_operation_act", *given)

    async def _value(self, name: str, *arguments: object) -> Any:
        return await self.connection.fetchval(self._sql[name], *arguments)

    async def _rows(self, name: str, *arguments: object) -> Sequence[Record]:
        return await self.connection.fetch(self._sql[name], *arguments)


@asynccontextmanager
async def _step_of(number: int) -> AsyncIterator[None]:
    """Raise TooLate where a step of an operation, which holds its row, does not end."""
    try:
        yield
    except asyncpg.LockNotAvailableError as error:
        raise TooLate(
            f"who carries operation {number} out stands still in the middle of a step",
            remedy="PostgreSQL ends that step within half a minute: try again then",
        ) from error


def _ours(grant: Grant, rows: Sequence[Record]) -> None:
    """Raise OperationLost where an operation is not held under this grant, StopRequested where it is to end."""
    if not rows:
        raise OperationLost(
            f"operation {grant.number} is carried out by another process, or has ended",
            remedy=LOOK.format(grant.number),
        )
    if rows[0]["stop_asked_by"] is not None:
        raise StopRequested(f"{rows[0]['stop_asked_by']}: {rows[0]['stop_reason']}")


def _arguments(chosen: Chosen) -> Sequence[object]:
    return [list(value) if isinstance(value, tuple) else value for value in msgspec.structs.astuple(chosen)]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def report_of(row: Mapping[str, Any]) -> OperationReport:
    """Return an operation by its row."""
    return msgspec.convert({**row, "chosen": msgspec.json.decode(row["chosen"])}, OperationReport)


def _ended(one: OperationReport) -> TooLate:
    return TooLate(f"operation {one.number} has ended: {one.state}", remedy=LOOK.format(one.number))


def _not_taken(one: OperationReport) -> TooLate:
    if one.ended is not None:
        return _ended(one)
    return TooLate(
        f"{one.owner} carries operation {one.number} out, and gave a sign of life {one.silent_s:.0f} s ago",
        remedy=f"Watch it: `projectionist operations watch {one.number}`",
    )


@asynccontextmanager
async def lent_store(postgres: Postgres) -> AsyncIterator[OperationStore]:
    """Lend a store over a connection of its own, for a word or two."""
    connection = await connections.connect(postgres, application_name=NAME)
    try:
        yield OperationStore(connection, postgres.schema)
    finally:
        connection.terminate()
