"""Where consumers and the outbox stand, as metrics: looked up in the database and at the broker."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from projectionist.core import clock
from projectionist.core.cloudevents import timestamp
from projectionist.core.postgres.statements import Statements
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.core.telemetry.instruments import Metric
from projectionist.core.telemetry.metrics import Shown
from projectionist.outbox.relay.outbox_metrics import OutboxMetrics
from projectionist.runner.consumers.status import MOST, ConsumerStatus, consumers
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import BrokerError
from projectionist.runner.telemetry.scale_board import ScaleBoard
from projectionist.runner.telemetry.scaling import ConsumerLoad

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Alerts, Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition

LOOKING_S = 20.0
"""How long one look may take, over all consumers."""
VALID_LOOKS = 3
"""After so many intervals without a look what was seen is gone by no more."""
_BREAKER = {"half_open": 1, "open": 2}
_SETTLED = {
    *("applied", "ignored", "stale", "duplicate", "foreign", "skipped", "discarded", "erased"),
    *("failed", "parked_gap", "parked_blocked"),
}
"""Outcomes by which an event is work for nobody any more; what is parked waits for another event, or for a person."""


class UnsettledMessages(NamedTuple):
    """What the broker holds for a consumer: not delivered yet, and delivered and not acked."""

    pending: int
    unacked: int


class OpenBuild(msgspec.Struct, frozen=True):
    """An open rebuild."""

    phase: str
    age_s: float
    share: float
    doing: str | None = None
    """What its builder said last; nothing in its first seconds."""
    done: int | None = None
    expected: int | None = None
    per_s: float | None = None


class WaitingCounts(msgspec.Struct, frozen=True):
    """What stands still of one consumer, by why."""

    name: str
    stream: str
    durable: str
    parked: dict[str, int]
    ages: dict[str, float]
    gaps: dict[str, int]
    quarantine: dict[str, int]
    incidents: dict[str, int]
    unread: int
    build: OpenBuild | None
    replays: int


class StateMetrics:
    """Looks where consumers and the outbox stand, whoever runs them, and shows it."""

    def __init__(self, definitions: Sequence[ConsumerDefinition] | None, settings: Settings) -> None:
        """Take what is measured; without `definitions` it looks after every consumer that is registered."""
        self._names = None if definitions is None else [definition.name for definition in definitions]
        self._settings = settings
        self._schema = settings.postgres.schema
        self._sql = Statements("projectionist.runner", self._schema)
        self._outbox = OutboxMetrics(self._schema)
        self.board = ScaleBoard(settings, VALID_LOOKS * settings.telemetry.metrics_interval_s + LOOKING_S)

    async def look(self, connection: Connection, client: Client | None) -> None:
        """Look once, at the database and, where it can be reached, at the broker."""
        statuses = {one.name: one for one in await consumers(connection, self._schema)}
        waiting = {
            one.name: one
            for one in map(_waiting, await connection.fetch(self._sql["select_state_metrics"], MOST))
        }
        await self._outbox.look(connection)
        for name in statuses if self._names is None else self._names:
            _show_thresholds(name, self._settings.policy(name).alerts)
            one, each = statuses.get(name), waiting.get(name)
            if one is None or each is None:
                show(instruments.RUNNERS, name, None, {"": 0})  # nobody has ever run it, nor migrated
                show(instruments.LAG, name, None, {"": 1})
                continue
            _show_status(one)
            _show_waiting(each)
            asked = await _ask_broker(client, each)
            lag = one.lag if asked is None else asked.pending
            show(instruments.LAG, name, None, {"": max(1, each.unread) if lag is None else lag})
            self.board.note(name, _load(one, asked, self._settings.run.lease_s))
        self.board.looked()


def _load(one: ConsumerStatus, asked: UnsettledMessages | None, lease_s: float) -> ConsumerLoad:
    """Return what is to be settled of a consumer, and by how many; what is parked is no work."""
    alive = [runner for runner in one.runners if runner.silent_s <= lease_s]
    if asked is None and one.lag is not None:
        asked = UnsettledMessages(one.lag, max((runner.unacked or 0 for runner in alive), default=0))
    return ConsumerLoad(
        at=clock.now(),
        settled=sum(n for outcome, n in one.outcomes.items() if outcome in _SETTLED),
        behind=None if asked is None else asked.pending + asked.unacked + one.backlog,
        runners=len(alive),
        halted=one.paused or (one.breaker is not None and one.breaker.state == "open"),
    )


def _show_thresholds(consumer: str, alerts: Alerts) -> None:
    others = [pair for pair in metrics.shown(instruments.POLICY) if pair[1].get(names.CONSUMER) != consumer]
    metrics.show(instruments.POLICY, [*others, *metrics.thresholds(alerts, {names.CONSUMER: consumer})])


def _show_status(one: ConsumerStatus) -> None:
    show(instruments.UNACKED, one.name, None, {"": max((r.unacked or 0 for r in one.runners), default=0)})
    show(instruments.RUNNERS, one.name, None, {"": len(one.runners)})
    show(instruments.PAUSED, one.name, None, {"": one.paused})
    state = "closed" if one.breaker is None else one.breaker.state
    show(instruments.BREAKER, one.name, None, {"": _BREAKER.get(state, 0)})
    show(instruments.OUTCOMES, one.name, names.OUTCOME, one.outcomes)
    show(instruments.BACKLOG, one.name, None, {"": one.backlog})
    show(instruments.PENDING_AGE, one.name, None, {"": one.oldest_s or 0})
    show(instruments.HEADS, one.name, names.STATE, one.heads)


def _show_waiting(one: WaitingCounts) -> None:
    show(instruments.PARKED, one.name, names.CAUSE, one.parked)
    show(instruments.PARKED_AGE, one.name, names.STATE, one.ages)
    show(instruments.GAPS, one.name, names.FINDING, one.gaps)
    show(instruments.QUARANTINE, one.name, names.REASON, one.quarantine)
    show(instruments.INCIDENTS, one.name, names.KIND, one.incidents)
    show(instruments.REPLAYS, one.name, None, {"": one.replays})
    show_build(one.name, one.build)


async def _ask_broker(client: Client | None, one: WaitingCounts) -> UnsettledMessages | None:
    """Show what the broker says; the messages that are not settled, None where it does not answer."""
    if client is None or not one.durable:
        return None
    try:
        stream = await api.stream(client, one.stream)
        durable = await api.consumer(client, one.stream, one.durable)
        floor = durable.ack_floor.stream_seq
        age = 0.0
        if durable.num_pending or durable.num_ack_pending:
            subject = durable.config.filter_subject or ">"
            first = max(floor + 1, stream.state.first_seq)
            message = await api.message(client, one.stream, first, subject)
            age = 0.0 if message is None else max(0.0, time.time() - timestamp(message.time).timestamp())
    except BrokerError:
        return None  # what was shown before stays
    show(instruments.UNREAD_AGE, one.name, None, {"": age})
    show(instruments.MAX_AGE, one.name, None, {"": stream.config.max_age / 1e9})
    show(instruments.FILL, one.name, None, {"": _fill(stream)})
    show(instruments.HEADROOM, one.name, None, {"": max(0, floor + 1 - stream.state.first_seq)})
    return UnsettledMessages(durable.num_pending, durable.num_ack_pending)


def show(metric: Metric, consumer: str, attribute: str | None, values: Mapping[str, float]) -> None:
    """Show what one consumer has of a metric, by the values of one attribute; others keep theirs.

    Where there is nothing, that is told as well: a series without the attribute.
    """
    others: Shown = [
        (n, attributes)
        for n, attributes in metrics.shown(metric)
        if attributes.get(names.CONSUMER) != consumer
    ]
    ours = [
        (float(n), {names.CONSUMER: consumer} | ({} if attribute is None else {attribute: value}))
        for value, n in values.items()
    ] or [(0.0, {names.CONSUMER: consumer})]
    metrics.show(metric, [*others, *ours])


def show_build(consumer: str, build: OpenBuild | None) -> None:
    """Show how an open rebuild goes."""
    show(instruments.REBUILDING, consumer, names.PHASE, {} if build is None else {build.phase: build.age_s})
    show(instruments.REBUILD_SHARE, consumer, None, {} if build is None else {"": build.share})
    doing = None if build is None else build.doing
    lag: tuple[tuple[Metric, float | None], ...] = (
        (instruments.REBUILD_DONE, None if build is None else build.done),
        (instruments.REBUILD_EXPECTED, None if build is None else build.expected),
        (instruments.REBUILD_RATE, None if build is None else build.per_s),
    )
    for metric, value in lag:
        show(metric, consumer, names.PHASE, {} if not doing or value is None else {doing: value})


def _fill(stream: api.StreamInfo) -> float:
    state, config = stream.state, stream.config
    shares = [(state.messages, config.max_msgs), (state.bytes, config.max_bytes)]
    return max((held / most for held, most in shares if most > 0), default=0.0)


def _waiting(row: Record) -> WaitingCounts:
    found = {
        name: msgspec.json.decode(value) if isinstance(value, str) and value[:1] in "{[" else value
        for name, value in row.items()
    }
    return msgspec.convert(found, WaitingCounts)
