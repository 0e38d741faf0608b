"""Where consumers stand, as metrics: looked up in the database and at the broker now and then, shown when asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

from projectionist.core.headers import timestamp
from projectionist.core.signals import announce
from projectionist.core.sql import Statements
from projectionist.core.telemetry import meters, names
from projectionist.core.telemetry.meters import Shown
from projectionist.core.telemetry.names import Metric
from projectionist.core.trouble import is_transient
from projectionist.runner import jetstream
from projectionist.runner.jetstream import BrokerError
from projectionist.runner.status import ConsumerStatus, consumers

if TYPE_CHECKING:
    from asyncpg import Record
    from nats.aio.client import Client

    from projectionist.core.settings import Alerts, Settings
    from projectionist.projections.definition import Definition
    from projectionist.runner.office import Office

_BREAKER = {"half_open": 1, "open": 2}


class Build(msgspec.Struct, frozen=True):
    """An open rebuild."""

    phase: str
    age_s: float
    share: float
    doing: str | None = None
    """What its builder said last; nothing in its first seconds."""
    done: int | None = None
    expected: int | None = None
    per_s: float | None = None


class Waiting(msgspec.Struct, frozen=True):
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
    build: Build | None
    replays: int


class Observer:
    """Looks, until cancelled, where the consumers of one process stand; and which server answers."""

    def __init__(
        self, definitions: Sequence[Definition], settings: Settings, client: Client, office: Office
    ) -> None:
        self._names = [definition.name for definition in definitions]
        self._every_s = settings.telemetry.every_s
        self._client = client
        self._office = office
        self._schema = settings.postgres.schema
        self._sql = Statements("projectionist.runner", settings.postgres.schema)
        for name in self._names:
            show(names.POLICY, name, names.THRESHOLD, thresholds(settings.policy(name).alerts))

    async def run(self) -> None:
        """Look now, and then every so often."""
        while True:
            await self._look()
            announce("telemetry.observed")
            await anyio.sleep(self._every_s)

    async def _look(self) -> None:
        answers = False
        try:
            with anyio.move_on_after(self._every_s):
                async with self._office.lend() as connection:
                    standing = await consumers(connection, self._schema)
                    waiting = [_waiting(row) for row in await connection.fetch(self._sql["observed"])]
                answers = True
                self._show(standing, waiting)
                await self._ask_broker(waiting)
        except Exception as error:  # an outage is told by the gate, and shown here
            if not is_transient(error):
                raise
        servers = {names.POSTGRESQL: answers, names.NATS: self._client.is_connected}
        meters.show(names.REACHABLE, [(float(up), {names.SERVER: name}) for name, up in servers.items()])

    def _show(self, standing: Sequence[ConsumerStatus], waiting: Sequence[Waiting]) -> None:
        unread = {one.name: one.unread for one in waiting}
        ours = [one for one in standing if one.name in self._names]
        for one in ours:
            lag = max(1, unread.get(one.name, 1)) if one.lag is None else one.lag
            show(names.LAG, one.name, None, {"": lag})
            show(names.UNACKED, one.name, None, {"": max((r.unacked or 0 for r in one.runners), default=0)})
            show(names.RUNNERS, one.name, None, {"": len(one.runners)})
            show(names.PAUSED, one.name, None, {"": one.paused})
            state = "closed" if one.breaker is None else one.breaker.state
            show(names.BREAKER, one.name, None, {"": _BREAKER.get(state, 0)})
            show(names.OUTCOMES, one.name, names.OUTCOME, one.outcomes)
            show(names.BACKLOG, one.name, None, {"": one.backlog})
            show(names.PENDING_AGE, one.name, None, {"": one.oldest_s or 0})
            show(names.HEADS, one.name, names.STATE, one.heads)
        for each in (one for one in waiting if one.name in self._names):
            show(names.PARKED, each.name, names.CAUSE, each.parked)
            show(names.PARKED_AGE, each.name, names.STATE, each.ages)
            show(names.GAPS, each.name, names.FINDING, each.gaps)
            show(names.QUARANTINE, each.name, names.REASON, each.quarantine)
            show(names.INCIDENTS, each.name, names.KIND, each.incidents)
            show(names.REPLAYS, each.name, None, {"": each.replays})
            show_build(each.name, each.build)

    async def _ask_broker(self, waiting: Sequence[Waiting]) -> None:
        for one in waiting:
            if one.name in self._names and one.durable:
                try:
                    await self._ask_about(one)
                except BrokerError:
                    continue  # what was known before stays

    async def _ask_about(self, one: Waiting) -> None:
        stream = await jetstream.stream(self._client, one.stream)
        durable = await jetstream.consumer(self._client, one.stream, one.durable)
        floor = durable.ack_floor.stream_seq
        age = 0.0
        if durable.num_pending or durable.num_ack_pending:
            subject = durable.config.filter_subject or ">"
            first = max(floor + 1, stream.state.first_seq)
            message = await jetstream.message(self._client, one.stream, first, subject)
            age = 0.0 if message is None else max(0.0, time.time() - timestamp(message.time).timestamp())
        show(names.UNREAD_AGE, one.name, None, {"": age})
        show(names.MAX_AGE, one.name, None, {"": stream.config.max_age / 1e9})
        show(names.FILL, one.name, None, {"": _fill(stream)})
        show(names.HEADROOM, one.name, None, {"": max(0, floor + 1 - stream.state.first_seq)})


def show(metric: Metric, consumer: str, attribute: str | None, values: Mapping[str, float]) -> None:
    """Show what one consumer has of a metric, by the values of one attribute; others keep theirs.

    Where there is nothing, that is told as well: a series without the attribute.
    """
    others: Shown = [
        (n, attributes)
        for n, attributes in meters.shown(metric)
        if attributes.get(names.CONSUMER) != consumer
    ]
    ours = [
        (float(n), {names.CONSUMER: consumer} | ({} if attribute is None else {attribute: value}))
        for value, n in values.items()
    ] or [(0.0, {names.CONSUMER: consumer})]
    meters.show(metric, [*others, *ours])


def show_build(consumer: str, build: Build | None) -> None:
    """Show how an open rebuild goes."""
    show(names.REBUILDING, consumer, names.PHASE, {} if build is None else {build.phase: build.age_s})
    show(names.REBUILD_SHARE, consumer, None, {} if build is None else {"": build.share})
    doing = None if build is None else build.doing
    told: tuple[tuple[Metric, float | None], ...] = (
        (names.REBUILD_DONE, None if build is None else build.done),
        (names.REBUILD_EXPECTED, None if build is None else build.expected),
        (names.REBUILD_RATE, None if build is None else build.per_s),
    )
    for metric, value in told:
        show(metric, consumer, names.PHASE, {} if not doing or value is None else {doing: value})


def thresholds(alerts: Alerts) -> dict[str, float]:
    """The thresholds of a consumer by name."""
    return {name: float(value) for name, value in msgspec.structs.asdict(alerts).items()}


def _fill(stream: jetstream.Stream) -> float:
    state, config = stream.state, stream.config
    shares = [(state.messages, config.max_msgs), (state.bytes, config.max_bytes)]
    return max((held / most for held, most in shares if most > 0), default=0.0)


def _waiting(row: Record) -> Waiting:
    found = {
        name: msgspec.json.decode(value) if isinstance(value, str) and value[:1] in "{[" else value
        for name, value in row.items()
    }
    return msgspec.convert(found, Waiting)
