"""Single rows, folded anew from exactly the events that live has applied to them: for verify and recompute.

Row and inbox are read in one snapshot, so the test is exact while the system moves: every applied event of the
row is in the inbox, in the state and under the sequence it was applied with, or was until retention removed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.states import Entry
from projectionist.projections.readmodel import ReadModel
from projectionist.projections.rows import Rows
from projectionist.runner import jetstream
from projectionist.runner.delivery import Delivery
from projectionist.runner.model import step_of
from projectionist.runner.owntype import OwnType
from projectionist.runner.rebuild.decisions import Decisions
from projectionist.runner.rebuild.desk import Desk, RebuildError
from projectionist.runner.rebuild.forgotten import forgotten_by_retention
from projectionist.runner.rebuild.history import is_own
from projectionist.runner.rebuild.scan import scan
from projectionist.runner.rebuild.shadow import Stumbled, stumble

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.runner.consumer import Consumer

Row = tuple[Any, ...]

_APPLIED = frozenset({Entry.APPLIED, Entry.IGNORED})


class Refolded(msgspec.Struct):
    """One row as it is live, and as its events make it."""

    key: Any
    live: Row | None
    folded: Row | None
    events: int
    states: list[tuple[str, Row | None]]
    """The row after each of its events, named by aggregate and version; only where it differs."""

    @property
    def differs(self) -> bool:
        """Whether the live row is another one."""
        return self.live != self.folded


class Candidates:
    """The events in the stream that touch certain rows, read as far as the stream went."""

    def __init__(
        self, client: Client, consumer: Consumer, keys: Iterable[Any], decided: Sequence[Record]
    ) -> None:
        """`decided` are the recorded decisions; an event may be another one by them, and touch another row."""
        self._client = client
        self._consumer = consumer
        self._definition = consumer.definition
        self._keys = set(keys)
        self.decisions = Decisions(decided)
        self._one_of = self.decisions.reading(consumer.reader)
        self._decided = len(decided)
        self._next = 1
        self.events: dict[Any, list[Delivery]] = {key: [] for key in self._keys}

    def outdated(self, decided: Sequence[Record]) -> bool:
        """Whether more has been decided since."""
        return len(decided) != self._decided

    async def read(self) -> int:
        """Read on to the end of the stream; how many more events touch these rows."""
        stream = await jetstream.stream(self._client, self._definition.stream)
        before = self._count()
        last = stream.state.last_seq
        async for block in scan(self._client, self._definition.stream, self._filter(), self._next, last):
            for arrival in block:
                delivery = self._one_of(arrival)
                if isinstance(delivery, Delivery):
                    self._keep(delivery)
        self._next = last + 1
        return self._count() - before

    def _keep(self, delivery: Delivery) -> None:
        step = step_of(self._definition, delivery.seq, delivery)
        if step is not None and not isinstance(step.key, Exception) and step.key in self._keys:
            self.events[step.key].append(delivery)

    def _count(self) -> int:
        return sum(map(len, self.events.values()))

    def _filter(self) -> str:
        """The subject of the one aggregate, where there is only one; everything otherwise."""
        subjects, filter_subject = self._definition.subjects, None
        if len(self._keys) == 1 and is_own(self._consumer) and self._consumer.own_type is not None:
            filter_subject = subjects.subject_for(self._consumer.own_type, str(next(iter(self._keys))))
        return filter_subject or subjects.filter


async def refold(desk: Desk, consumer: Consumer, candidates: Candidates) -> list[Refolded]:
    """Compare the rows of the candidates' keys, in the caller's transaction; its snapshot must be one.

    The caller reads on afterwards: if more events came, live may have applied some that are missing here.
    """
    live = await load(desk, consumer, list(candidates.events))
    known = await _known(desk, consumer, candidates)
    forgotten = await forgotten_by_retention(desk, consumer, candidates.events.values(), candidates.decisions)
    found = []
    for key, events in candidates.events.items():
        applied = [d for d in events if _is_applied(d, known, consumer)]
        applied = in_order([*applied, *forgotten.among(events, applied)])
        states = _fold(consumer, key, applied)
        folded = states[-1][1] if states else None
        one = Refolded(key, live.get(key), folded, len(applied), [])
        if one.differs:
            one.states = states
        found.append(one)
    return found


async def load(desk: Desk, consumer: Consumer, keys: Sequence[Any]) -> dict[Any, Row]:
    """The live rows of these keys, in database form."""
    table = consumer.definition.table
    if table is None:
        raise RebuildError(
            f"{consumer.definition.name} writes its rows by SQL of its own: no single row can be folded",
            remedy="Rebuild it, which compares all rows",
        )
    statement = ReadModel(table, desk.schema, consumer.generation).load
    rows = [tuple(row) for row in await desk.connection.fetch(statement, list(keys))]
    return {row[table.key_at]: row for row in rows}


def first_differing(one: Refolded) -> str | None:
    """The event from which on the live row is another one: as if it, and what follows, had not been applied rightly."""
    rows = [None, *(row for _, row in one.states)]
    for at in range(len(rows) - 1, -1, -1):
        if rows[at] == one.live:
            return one.states[at][0] if at < len(one.states) else None
    if one.live is None or one.folded is None:
        return one.states[0][0] if one.states else None
    wrong = [at for at, value in enumerate(one.folded) if value != one.live[at]]
    return min((_since(one, at) for at in wrong), default=(0, None))[1]


def _since(one: Refolded, column: int) -> tuple[int, str | None]:
    """The first event behind which this column no longer has the live value."""
    live = None if one.live is None else one.live[column]
    for at in range(len(one.states) - 1, -1, -1):
        row = one.states[at][1]
        if row is not None and row[column] == live:
            return at + 1, one.states[at + 1][0] if at + 1 < len(one.states) else None
    return 0, one.states[0][0] if one.states else None


def in_order(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """Stream order, as far as the order inside aggregates allows."""
    if any(d.version is None for d in deliveries):
        return sorted(deliveries, key=lambda d: d.seq)
    ranks: dict[str, int] = {}
    ranked: list[tuple[int, int, Delivery]] = []
    for delivery in sorted(deliveries, key=lambda d: (d.aggregate or "", d.version or 0)):
        rank = ranks[delivery.aggregate or ""] = max(ranks.get(delivery.aggregate or "", 0), delivery.seq)
        ranked.append((rank, len(ranked), delivery))
    return [delivery for _, _, delivery in sorted(ranked, key=lambda r: r[:2])]


async def _known(desk: Desk, consumer: Consumer, candidates: Candidates) -> Mapping[tuple[str, str], Record]:
    asked = ((d.source, d.id) for events in candidates.events.values() for d in events)
    return await desk.known(consumer.number, asked)


def _is_applied(delivery: Delivery, known: Mapping[tuple[str, str], Record], consumer: Consumer) -> bool:
    row = known.get((delivery.source, delivery.id))
    if row is None or row["state"] not in _APPLIED:
        return False
    return bool((row["incarnation"], row["seq"]) == (consumer.incarnation, delivery.seq))


def _fold(consumer: Consumer, key: Any, deliveries: Sequence[Delivery]) -> list[tuple[str, Row | None]]:
    definition = consumer.definition
    assert definition.table is not None, "load has refused others"
    rows, states, own = Rows(definition.cls, definition.table, {}), [], OwnType(consumer.own_type)
    for delivery in deliveries:
        step = step_of(definition, delivery.seq, delivery)
        if delivery.problem is not None or step is None:
            raise Stumbled([stumble(delivery, delivery.problem or "no handler declares its type")])
        try:
            own.check(step.handler, delivery.aggregate)
            rows.apply(step)
        except Exception as error:  # a user's code: what it raises is told with its event
            raise Stumbled([stumble(delivery, f"{type(error).__name__}: {error}")]) from error
        states.append((named(delivery), rows.changed().get(key)))
    return states


def named(delivery: Delivery) -> str:
    """An event, as a person finds it."""
    return (
        f"{delivery.aggregate} v{delivery.version}"
        if delivery.version is not None
        else f"sequence {delivery.seq}"
    )
