"""A row as it was: folded again from the events up to a moment, with the decisions of operators repeated.

What is meant is the row by its events: everything up to that moment applied, whenever live came to it.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.cloudevents import timestamp
from projectionist.projections.tables.table import Table
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.history.lost_events import holes_of, is_own
from projectionist.runner.history.unknown_rows import own_group
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.ack_subject import parse_ack_subject
from projectionist.runner.jetstream.stream_range import first_stored_from
from projectionist.runner.preview.live_rows import LiveRows
from projectionist.runner.verify.recompute import parsed
from projectionist.runner.verify.refold_rows import FoldObserver, named, table_of
from projectionist.runner.verify.row_difference import Row
from projectionist.runner.verify.verify import exactly, live_consumer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.reactor_answers import HandlerResult
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.database.queries import Queries
    from projectionist.runner.decoding.delivery import Delivery
    from projectionist.runner.history.progress import Progress
    from projectionist.runner.history.unknown_rows import Lost

SEQUENCE = "seq:"
"""What stands before a sequence of the stream, which would be taken for a version."""


LISTED = 20


class Moment(msgspec.Struct, frozen=True):
    """Up to where a row is folded: a version of its aggregate, a sequence of the stream, or without either the end."""

    version: int | None = None
    seq: int | None = None

    def holds(self, version: int | None, rank: int) -> bool:
        """Return whether an event is up to here; `rank`: the highest sequence of it and those of its aggregate before
        it."""
        if self.version is not None:
            return (version or 0) <= self.version
        return self.seq is None or rank <= self.seq

    def precedes(self, lost: Lost) -> bool:
        """Return whether the lowest version that a row of its own lacks came after this moment, and so all it lacks."""
        if self.version is not None:
            return lost.version is not None and lost.version > self.version
        return self.seq is not None and lost.seq is not None and lost.seq > self.seq


class RowState(msgspec.Struct, frozen=True):
    """What an event made of the row."""

    event: str
    """The aggregate and its version, or the sequence where there is no order."""
    type: str
    id: str
    source: str
    seq: int
    stored: datetime
    changed: dict[str, Any] | None
    """Columns with their new values; None: there is no row behind it."""


class PastRow(msgspec.Struct, kw_only=True):
    """A row as it was, or why that cannot be told."""

    consumer: str
    key: str
    at: str | None
    row: dict[str, Any] | None = None
    events: int = 0
    """Events that made it."""
    later: int = 0
    """Events of this row that live has applied behind the moment."""
    states: list[RowState] = []
    """The newest of them first to last; without `history` the last alone."""
    earlier_states: int = 0
    """How many came before those listed."""
    lost: str | None = None
    """An event that live has applied and that cannot be had any more: what is left of them does not make the row."""
    waiting: list[str] = []
    """The first events up to the moment that live has not applied yet: they are not in the row."""
    differs: bool = False
    """Whether the live row is another one, where the row as it is now was asked for."""
    other_code: bool = False
    """Whether the live rows may have been made by other code than this, which may have made another row then."""

    @property
    def is_unknown(self) -> bool:
        """Return whether there is no such row, and no event of it."""
        return not (self.events or self.later or self.waiting or self.lost or self.differs)


class RowObserver(FoldObserver):
    """Lets in what is up to a moment, and keeps what it made of one row."""

    def __init__(self, table: Table, moment: Moment, most: int, progress: Progress) -> None:
        """Take how many states are kept, the newest of them."""
        self._progress = progress
        self._table = table
        self._moment = moment
        self._most = most
        self.begin()

    def begin(self) -> None:
        """Forget what was told."""
        self._ranks: dict[str, int] = {}
        self._before: Row | None = None
        self.later = 0
        self.events = 0
        self.states: deque[RowState] = deque(maxlen=self._most)
        self.waiting: list[str] = []

    async def read(self, messages: int) -> None:
        """Show how far it is."""
        await self._progress.advance(messages)

    def takes(self, delivery: Delivery) -> bool:
        """Return whether an event is up to the moment."""
        inside = self._is_inside(delivery)
        self.later += not inside
        return inside

    def applied(
        self, delivery: Delivery, result: HandlerResult | None, rows: Mapping[Any, Row | None]
    ) -> None:
        """Keep what it made of the row."""
        (row,) = rows.values()
        self.events += 1
        before, self._before = self._before, row
        names = [column.name for column in self._table.columns]
        changed = None if row is None else dict(zip(names, row, strict=True))
        if changed is not None and before is not None and row is not None:
            changed = {name: new for name, old, new in zip(names, before, row, strict=True) if old != new}
        self.states.append(
            RowState(
                event=named(delivery),
                type=delivery.type,
                id=delivery.id,
                source=delivery.source,
                seq=delivery.seq,
                stored=_stored(delivery),
                changed=changed,
            )
        )

    def ended(self, waiting: Sequence[Delivery]) -> None:
        """Keep the first of what live has not applied, up to the moment."""
        self.waiting = [named(one) for one in waiting if self._is_inside(one)][:LISTED]

    def _is_inside(self, delivery: Delivery) -> bool:
        aggregate = delivery.aggregate or ""
        rank = self._ranks[aggregate] = max(self._ranks.get(aggregate, 0), delivery.seq)
        return self._moment.holds(delivery.version, rank)


def _stored(delivery: Delivery) -> datetime:
    assert delivery.arrival is not None, "it was read from the stream"
    return datetime.fromtimestamp(0, UTC) + timedelta(
        microseconds=parse_ack_subject(delivery.arrival.reply)[2] // 1_000
    )


async def row_at(
    queries: Queries,
    definition: Definition,
    settings: Settings,
    client: Client,
    key: str,
    progress: Progress,
    at: str | None = None,
    *,
    states: int = 1,
) -> PastRow:
    """Fold the row `key` up to a moment that a person wrote, or to where live stands; nothing is written.

    For a row that several aggregates share, all of the stream is read.
    """
    consumer, live_code = await live_consumer(queries, definition, settings)
    table, columns = table_of(consumer)
    value = parsed(columns, key)
    moment = await _moment(queries, client, consumer, value, at)
    then = PastRow(consumer=definition.name, key=key, at=at, other_code=live_code != definition.code)
    if (lost := await _lost(queries, client, consumer, value, moment)) is None:
        observer = RowObserver(table, moment, states, progress)
        progress.begin("reading", 0)
        live = await LiveRows.of(queries, consumer)
        (one,) = await exactly(queries, consumer, client, [value], observer=observer, load_rows=live.load)
        lost = await _lost(queries, client, consumer, value, moment)
        then.events, then.later, then.waiting = observer.events, observer.later, observer.waiting
        then.differs = at is None and one.differs and not live.changes.other_key
        if lost is None:
            then.states = list(observer.states)
            then.earlier_states = observer.events - len(then.states)
            names = [column.name for column in table.columns]
            then.row = None if one.folded is None else dict(zip(names, one.folded, strict=True))
    then.lost = None if lost is None else str(lost)
    return then


async def _lost(
    queries: Queries, client: Client, consumer: Consumer, value: Any, moment: Moment
) -> Lost | None:
    """Return what is lost of the events that the row was made of at that moment.

    Of rows that are shared one event is remembered for all of them, which need not be the first.
    """
    lost = (await holes_of(queries, client, consumer, [value])).at(value)
    if lost is None:
        return None
    _, key = table_of(consumer)
    own = is_own(consumer) and own_group(consumer.view.definition, lost.aggregate or "") == key.group(value)
    return None if own and moment.precedes(lost) else lost


async def _moment(queries: Queries, client: Client, consumer: Consumer, value: Any, at: str | None) -> Moment:
    """Return what a person meant: a version, `seq:` and a sequence, or a time."""
    if at is None:
        return Moment()
    if at.isdecimal():
        await _check_version(queries, consumer, value, int(at))
        return Moment(version=int(at))
    stream = consumer.view.definition.stream
    state = (await api.stream(client, stream)).state
    if not at.startswith(SEQUENCE):
        after = timestamp(at).astimezone(UTC) + timedelta(microseconds=1)
        return Moment(seq=await first_stored_from(client, stream, state, after) - 1)
    seq = at.removeprefix(SEQUENCE)
    if not seq.isdecimal() or int(seq) > state.last_seq:
        raise RebuildError(f"{stream} holds no sequence {seq}: it ends at {state.last_seq}")
    return Moment(seq=int(seq))


async def _check_version(queries: Queries, consumer: Consumer, value: Any, version: int) -> None:
    name = consumer.view.definition.name
    if not is_own(consumer):
        raise RebuildError(
            f"rows of {name} belong to no single aggregate, whose version could be meant",
            remedy=f"Say when: a time like 2026-01-31T12:00:00Z, or {SEQUENCE}4711 for a sequence of the stream",
        )
    if consumer.view.own_type is None:
        raise RebuildError(f"{name} has applied no event yet, whose version could be meant")
    _, key = table_of(consumer)
    aggregate = f"{consumer.view.own_type}/{key.group(value)}"
    found = await queries.rows("select_positions", consumer.number, [aggregate])
    stands = found[0]["version"] if found else 0
    if version > stands:
        raise RebuildError(f"{name} has applied {aggregate} up to version {stands}, not {version}")
