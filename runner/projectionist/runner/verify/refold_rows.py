"""Single rows, folded anew from exactly the events that live has applied to them: for verify and recompute.

The stream is folded while it is read: memory for the rows, for events that wait, and for a number an aggregate. Which
events live has applied the inbox says, or what stands in for its rows that retention has removed. An applied event
stays applied, so only what waited is asked about again at the end, in one snapshot with the live rows. Where versions
come in no order, which is noticed on the way, the stream is read again, and events of those aggregates are kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.states import DecisionKind, InboxState
from projectionist.core.testpoints import announce
from projectionist.core.user_errors import RAISED, is_ours
from projectionist.projections.compiled.view_set import with_support
from projectionist.projections.folding.rows import Cell, Rows
from projectionist.projections.tables.row_statements import ReadModel
from projectionist.projections.tables.table_key import Keys, Prefix
from projectionist.runner.batch.batch_session import store_of
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.batch.handlers import step_of
from projectionist.runner.batch.lookup_reader import LookupReader
from projectionist.runner.batch.planning import UNORDERED
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.history.handler_failures import HandlersFailed, handler_failure
from projectionist.runner.history.lost_events import is_own
from projectionist.runner.history.unknown_rows import own_group
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.stream_reader import scan
from projectionist.runner.verify.purged_events import forgotten_by_retention
from projectionist.runner.verify.row_difference import FirstDifference, same
from projectionist.runner.verify.support_rows import SupportRows

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.postgres import connections
    from projectionist.projections.folding.step import Step
    from projectionist.projections.reactor_answers import HandlerResult
    from projectionist.projections.tables.table import Table
    from projectionist.projections.tables.table_key import TableKey
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.verify.support_rows import Needed

Row = tuple[Any, ...]

Load = Callable[[Sequence[Any]], Awaitable[Mapping[Any, Row]]]
"""Reads the live rows of these keys."""

AT_ONCE = 2_000
"""So many events are looked up and folded at a time."""
_APPLIED = frozenset({InboxState.APPLIED, InboxState.IGNORED})
_AMENDS = frozenset({DecisionKind.EDIT, DecisionKind.ERASE})
_WAITS = frozenset({InboxState.PARKED, InboxState.QUARANTINED})


class Refolded(msgspec.Struct):
    """One row as it is live, and as its events make it."""

    key: Any
    live: Row | None
    folded: Row | None
    events: int
    differs: bool
    since: str | None
    """The first event behind which the live row is another one, as far as it can be told."""
    looked_up: bool = False
    """Whether a handler of these events looks up what is not of their aggregate alone: others may change it."""


class FoldObserver:
    """Is told what an exact fold does. This one leaves nothing out, and the first failure ends the fold."""

    def begin(self) -> None:
        """Forget what was told: the fold begins anew."""

    async def read(self, messages: int) -> None:
        """Take note that so many more messages were read. May wait: that is how a reading is throttled."""

    def takes(self, delivery: Delivery) -> bool:
        """Return whether an event that live has applied is to be folded; asked in the order of folding."""
        return True

    def applied(
        self, delivery: Delivery, result: HandlerResult | None, rows: Mapping[Any, Row | None]
    ) -> None:
        """Take note of an event, of what its handler answered, and of its rows among these as they are behind it."""

    def failed(self, delivery: Delivery, error: BaseException | tuple[str, str]) -> None:
        """Take note of an event that live has applied and this code fails on; `error`: or its class and text."""
        raise HandlersFailed([handler_failure(delivery, error)])

    def ended(self, waiting: Sequence[Delivery]) -> None:
        """Take note of the events of these rows that live has not applied, in the order of the stream."""


class ExactFold:
    """Rows of certain keys, folded as far as the stream was read."""

    def __init__(
        self,
        queries: Queries,
        client: Client,
        consumer: Consumer,
        live: Mapping[Any, Row | None],
        decided: Sequence[connections.Row],
        before: ExactFold | None = None,
        observer: FoldObserver | None = None,
        load_rows: Load | None = None,
    ) -> None:
        """Take what is compared. `live`: the rows as they are now, by key. `decided` are the recorded decisions; an
        event may be another one by them, and touch another row. `before`: a fold that was not whole, whose disordered
        aggregates are kept until the end this time, and with which go the rows that it has found to be looked up."""
        definition, (table, self._key) = consumer.view.definition, table_of(consumer)
        self._queries = queries
        self._client = client
        self._consumer = consumer
        self._decisions = Decisions(decided)
        self._read = self._decisions.reading(self._reader(consumer))
        self._decided = len(decided)
        self._next = 1
        self._lookups = LookupReader(queries.connection, definition, keeps=True)
        self._looked_up: set[Any] = set()
        self._support = SupportRows(queries.connection, definition, {} if before is None else before.needed)
        self._support.give(definition, self._lookups.rows)
        self._rows = Rows(definition.cls, table, {}, self._lookups.rows)
        self._own = consumer.view.owned()
        self._ordered = definition.sequence != UNORDERED
        self._observer = observer or FoldObserver()
        self._observer.begin()
        self._load = load_rows or partial(load, queries, consumer)
        self._since = {key: FirstDifference(table, row) for key, row in live.items()}
        self._counts = dict.fromkeys(live, 0)
        self._groups = {self._key.group(key) for key in live}
        lengths = {len(handler.rows) for handler in definition.handlers.values() if handler.rows}
        self._beginnings = {key[:many] for key in live for many in lengths}
        self._fresh: list[Delivery] = []
        self._waiting: list[Delivery] = []
        self._kept: dict[tuple[str, int], Delivery] = {}
        self._reached: dict[str, int] = {}
        self._held: frozenset[str] = frozenset(() if before is None else before.disordered)
        self.disordered: set[str] = set(self._held)
        """Aggregates whose versions do not come in their order; if there are more than were given, begin again."""

    @staticmethod
    def _reader(consumer: Consumer) -> Decoder:
        """Return what reads the events of this view, and of those that it looks up."""
        definition = consumer.view.definition
        if not definition.support:
            return consumer.reader
        return Decoder.of(with_support(definition), consumer.policy, consumer.incarnation or 1)

    @property
    def is_whole(self) -> bool:
        """Return whether all was folded, in the order of versions; otherwise it is to be begun again, behind this."""
        return self.disordered == self._held and not self._support.lacks

    @property
    def needed(self) -> Needed:
        """Return the keys of the rows that are looked up in other views, as far as it is known."""
        return self._support.needed

    def outdated(self, decided: Sequence[Record]) -> bool:
        """Return whether decisions since then may have made other events of those that were read; winners do not."""
        return any(row["kind"] in _AMENDS for row in decided[self._decided :])

    async def read(self) -> None:
        """Read on to the end of the stream, and fold what live has applied."""
        definition = self._consumer.view.definition
        last = (await api.stream(self._client, definition.stream)).state.last_seq
        async for block in scan(self._client, definition.stream, self._filter(), self._next, last):
            for arrival in block:
                delivery = self._read(arrival)
                if isinstance(delivery, Delivery) and (
                    self._touches(delivery) or self._support.touches(delivery)
                ):
                    self._fresh.append(delivery)
            while len(self._fresh) >= AT_ONCE:
                self._fresh, some = self._fresh[AT_ONCE:], self._fresh[:AT_ONCE]
                await self._settle(some)
            await self._observer.read(len(block))
        self._fresh, some = [], self._fresh
        await self._settle(some)
        self._next = max(self._next, last + 1)
        announce("exact.read")

    async def end(self) -> list[Refolded]:
        """Fold what has been applied meanwhile, and compare; in one transaction whose snapshot is one."""
        await self._settle(self._fresh)
        self._fresh = []
        await self._fold(in_stream_order(self._kept.values()))
        self._kept = {}
        waiting = (one for one in self._waiting if self._touches(one))
        self._observer.ended(sorted(waiting, key=lambda one: one.seq))
        live = await self._load(list(self._counts))
        return [self._refolded(key, live.get(key), self._rows.cell(key).stored) for key in self._counts]

    def _refolded(self, key: Any, live: Row | None, folded: Row | None) -> Refolded:
        differs = not same(table_of(self._consumer)[0], live, folded)
        since = self._since[key].first_difference(live, folded) if differs else None
        return Refolded(
            key=key,
            live=live,
            folded=folded,
            events=self._counts[key],
            differs=differs,
            since=since,
            looked_up=key in self._looked_up,
        )

    def _touches(self, delivery: Delivery) -> bool:
        if self._decisions.erases(delivery):
            return False
        if delivery.problem is not None:
            return self._may_touch(delivery)
        step = step_of(self._consumer.view.definition, delivery.seq, delivery)
        if step is None:
            return False
        return self._may_touch(delivery) if isinstance(step.key, Exception) else self._names(step.key)

    def _names(self, key: Any) -> bool:
        """Return whether an event's key, keys or prefix is about one of these rows."""
        if isinstance(key, Keys):
            return any(one in self._counts for one in key.listed)
        if isinstance(key, Prefix):
            return key.values in self._beginnings
        return key in self._counts

    def _may_touch(self, delivery: Delivery) -> bool:
        """Return whether an event may belong to these rows that this code cannot read, or finds no row for; one that
        was applied fails."""
        handler = self._consumer.view.definition.handlers.get(delivery.type)
        if handler is None or not handler.own:
            return handler is not None
        return own_group(self._consumer.view.definition, delivery.aggregate or "") in self._groups

    async def _settle(self, fresh: Sequence[Delivery]) -> None:
        """Fold those of these and of the waiting that live has applied; what may still be applied waits."""
        asked = [*self._waiting, *fresh]
        if not asked:
            return
        store = store_of(self._queries.connection, self._queries.schema, self._consumer.number)
        known = await store.known((d.source, d.id) for d in asked)
        forgotten = await forgotten_by_retention(self._queries, self._consumer, asked, self._decisions)
        applied, self._waiting = [], []
        for delivery in asked:
            row = known.get((delivery.source, delivery.id))
            state = None if row is None else row["state"]
            if row is not None and (state in _APPLIED or state in _WAITS or self._is_of(row, delivery)):
                is_applied, waits = state in _APPLIED and self._is_of(row, delivery), state in _WAITS
            else:  # it came again after its own row was gone, or no row of it is there
                is_applied = forgotten.was_applied(delivery)
                waits = row is None and not forgotten.covers(delivery)
            if is_applied:
                applied.append(delivery)
            elif waits:
                self._waiting.append(delivery)
        await self._fold(self._in_version_order(applied, known))

    def _is_of(self, row: Record, delivery: Delivery) -> bool:
        """Return whether the inbox row is of this very message, and not of another one with the same identity."""
        return bool((row["incarnation"], row["seq"]) == (self._consumer.incarnation, delivery.seq))

    def _in_version_order(
        self, applied: list[Delivery], known: Mapping[tuple[str, str], Record]
    ) -> list[Delivery]:
        """Return those that come in the order of their aggregates' versions; others are kept, or noted for another
        pass."""
        if not self._ordered:
            return sorted(applied, key=lambda d: d.seq)
        ordered = []
        for delivery in in_stream_order(applied):
            aggregate, version = delivery.aggregate or "", delivery.version or 0
            if aggregate in self._held:
                at = (aggregate, version)
                if at not in self._kept or (delivery.source, delivery.id) in known:
                    self._kept[at] = delivery
            elif version > self._reached.get(aggregate, 0):
                self._reached[aggregate] = version
                ordered.append(delivery)
            else:
                self.disordered.add(aggregate)
        return ordered

    async def _fold(self, deliveries: Sequence[Delivery]) -> None:
        await self._lookups.read_deliveries(deliveries)
        await self._support.read(deliveries)
        for delivery in deliveries:
            if not self._has_support(delivery) or not self._observer.takes(delivery):
                continue
            if delivery.problem is not None:
                self._observer.failed(delivery, ("", delivery.problem))
                continue
            step = step_of(self._consumer.view.definition, delivery.seq, delivery)
            assert step is not None, "it touches a row"
            self._support.note(step)
            if self._support.lacks:
                continue
            try:
                self._own.check(step.handler, delivery.aggregate)
                cells = self._cells(step.key)
                if not step.handler.several:
                    result = self._rows.put(step.handler, cells[0], step.event, step.envelope)
                elif cells:
                    result = self._rows.put_all(step.handler, cells, step.event, step.envelope)
                else:
                    continue
            except RAISED as error:  # a user's code: what it raises is told with its event
                self._failed(delivery, error)
                continue
            self._observer.applied(delivery, result, {cell.key: cell.stored for cell in cells})
            self._note(delivery, step, cells)

    def _has_support(self, delivery: Delivery) -> bool:
        """Fold what is looked up; return whether the event is to be folded into the rows themselves."""
        if not self._support.needed:
            return True
        try:
            self._support.fold(delivery)
        except RAISED as error:  # a user's code: what it raises is told with its event
            self._failed(delivery, error)
            return False
        return self._touches(delivery)

    def _failed(self, delivery: Delivery, error: BaseException) -> None:
        """Take note of what a handler raised; of an ordered aggregate a lower version may be still to come."""
        if is_ours(error):
            raise error
        if self._ordered and delivery.aggregate not in self._held:
            self.disordered.add(delivery.aggregate or "")
        else:
            self._observer.failed(delivery, error)

    def _note(self, delivery: Delivery, step: Step, cells: Sequence[Cell]) -> None:
        if not all(ask.is_exact for ask in step.handler.asks):
            self._looked_up.update(cell.key for cell in cells)
        for cell in cells:
            self._counts[cell.key] += 1
            self._since[cell.key].note(named(delivery), cell.stored)

    def _cells(self, key: Any) -> list[Cell]:
        """Return those of an event's rows that are among these; below a prefix no others were ever made here."""
        if isinstance(key, Keys):
            key = Keys(tuple(one for one in key.listed if one in self._counts))
        return self._rows.cells(key) if isinstance(key, Keys | Prefix) else [self._rows.cell(key)]

    def _filter(self) -> str:
        """Return the subject of the one aggregate, where there is only one; everything otherwise."""
        subjects, kind, filter_subject = (
            self._consumer.view.definition.subjects,
            self._consumer.view.own_type,
            None,
        )
        alone = is_own(self._consumer) and self._consumer.view.definition.is_exact
        if len(self._groups) == 1 and alone and kind is not None:
            filter_subject = subjects.subject_for(kind, str(next(iter(self._groups))))
        return filter_subject or subjects.filter


def table_of(consumer: Consumer) -> tuple[Table, TableKey]:
    """Return the table of rows that can be folded one by one, and its key; raises RebuildError where there is none."""
    table = consumer.view.definition.table
    if table is None or table.key is None:
        raise RebuildError(
            f"{consumer.view.definition.name} writes its rows by SQL of its own: no single row can be folded",
            remedy="Rebuild it, which compares all rows before it swaps",
        )
    return table, table.key


async def load(queries: Queries, consumer: Consumer, keys: Sequence[Any]) -> dict[Any, Row]:
    """Return the live rows of these keys, in database form."""
    table, key = table_of(consumer)
    statement = ReadModel(table, queries.schema, consumer.view.generation).load
    rows = [tuple(row) for row in await queries.connection.fetch(statement, *key.arrays(keys))]
    return {key.of(row): row for row in rows}


def in_stream_order(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """Return stream order, as far as the order inside aggregates allows."""
    ranks: dict[str, int] = {}
    ranked: list[tuple[int, int, Delivery]] = []
    for delivery in sorted(deliveries, key=lambda d: (d.aggregate or "", d.version or 0, d.seq)):
        rank = ranks[delivery.aggregate or ""] = max(ranks.get(delivery.aggregate or "", 0), delivery.seq)
        ranked.append((rank, len(ranked), delivery))
    return [delivery for _, _, delivery in sorted(ranked, key=lambda r: r[:2])]


def named(delivery: Delivery) -> str:
    """Return an event, as a person finds it."""
    return (
        f"{delivery.aggregate} v{delivery.version}"
        if delivery.version is not None
        else f"sequence {delivery.seq}"
    )
