"""The broker: does each stream keep what its consumers need, and is each durable the one that was made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.errors import ProjectionistError
from projectionist.core.nats import api_subjects
from projectionist.core.nats.subject_relations import ALL
from projectionist.core.tls import context as tls_context
from projectionist.ops.doctor import database
from projectionist.ops.doctor.check import Check, attention, note, well
from projectionist.runner.jetstream import api, durable
from projectionist.runner.jetstream.api import BrokerError, ConsumerMissing, RequestDenied, StreamMissing
from projectionist.runner.jetstream.durable import DurableSpec
from projectionist.runner.process.migrate_streams import compared

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Row
    from projectionist.core.settings.settings import Nats, Settings
    from projectionist.projections import Stream
    from projectionist.projections.compiled.definition import ConsumerDefinition
    from projectionist.runner.jetstream.api import StreamConfig, StreamInfo
    from projectionist.runner.jetstream.durable_owner import DurableMark

ABOUT = "nats"
NANO = 1e9
FULL = 0.8
WINDOW_S = 120
MIGRATE = "projectionist migrate --streams"
SLOWEST = 3
"""So many times the time that 99 of 100 batches take has to fit into the ack wait."""


class _Limits(msgspec.Struct, frozen=True):
    max_storage: int = -1


class _Account(msgspec.Struct, frozen=True):
    storage: int = 0
    limits: _Limits = _Limits()


class _Answered(msgspec.Struct, frozen=True):
    ts: datetime | None = None


async def server(client: Client, settings: Nats) -> list[Check]:
    """Check the connection, its account, its clock."""
    version = client.connected_server_version
    hosts = [host for url in settings.url for host in url.hosts()]
    tls = "TLS" if tls_context(settings, hosts, name="nats") else "no TLS"
    checks = [well(ABOUT, "version", f"NATS {version.major}.{version.minor}.{version.patch}, {tls}")]
    try:
        account = await api.ask(client, api_subjects.account(), b"", _Account)
    except RequestDenied as error:
        return [
            *checks,
            note(ABOUT, "disk", f"the account's limits cannot be seen: {error.message}", error.remedy),
        ]
    except BrokerError as error:
        return [*checks, attention(ABOUT, "jetstream", error.message, error.remedy)]
    limit = account.limits.max_storage
    if limit > 0 and account.storage > FULL * limit:
        checks.append(
            attention(
                ABOUT,
                "disk",
                f"{account.storage / limit:.0%} of the account's storage is taken",
                "Raise the limit, or give streams a max_age: a full stream refuses events",
            )
        )
    return checks


async def stream(client: Client, name: str, declared: Stream | None) -> tuple[StreamInfo | None, list[Check]]:
    """Check one stream, for all its consumers, and as the app declares it."""
    about = f"stream {name}"
    asked = datetime.now(UTC)
    try:
        found = await api.stream(client, name)
        answer = await api.ask(client, api_subjects.stream_info(name), b"", _Answered)
        unlike = [] if declared is None else await _as_declared(client, about, declared)
    except StreamMissing:
        return None, [
            attention(
                about,
                "there",
                "there is no such stream",
                MIGRATE if declared else f"Create stream {name}, or mend stream= of the class",
            )
        ]
    except BrokerError as error:
        return None, [attention(about, "there", error.message, error.remedy)]
    checks = [*_config(about, found), *unlike]
    if answer.ts is not None:
        answered = datetime.now(UTC)
        skew = (answer.ts - (asked + (answered - asked) / 2)).total_seconds()
        checks.append(database.clock(skew, about))
    return found, checks


async def _as_declared(client: Client, about: str, stream: Stream) -> list[Check]:
    planned, _ = await compared(client, stream)
    checks = [attention(about, "declared", one.found, one.mend) for one in planned.differences]
    if planned.what:
        checks.append(attention(about, "declared", f"it is to be: {', '.join(planned.changes)}", MIGRATE))
    return checks or [well(about, "declared", "it is as the app declares it")]


def _config(about: str, found: StreamInfo) -> Iterator[Check]:
    config = found.config
    age = f"{config.max_age / NANO / 86_400:g} days" if config.max_age else "for ever"
    yield well(about, "keeps", f"{found.state.messages:,} messages, each {age}")
    if config.num_replicas < 2:
        yield note(
            about,
            "replicas",
            "one replica: with its disk the stream is gone",
            "Use three in a cluster; with one, `sync_interval: always` at the server, which no client can see",
        )
    window = config.duplicate_window / NANO
    if 0 < window < WINDOW_S:
        yield attention(
            about,
            "duplicate window",
            f"the stream knows a message id for {window:g} s only",
            f"Set it to {WINDOW_S} s or more: a publish without an answer is repeated for longer",
        )
    for name, limit in (("max_msgs", config.max_msgs), ("max_bytes", config.max_bytes)):
        if limit > 0:
            what = "drops the oldest" if config.discard == "old" else "refuses new ones"
            yield note(about, name, f"beyond {limit:,} the stream {what}, whether they were read or not")
    yield from _origins(about, config)


def _origins(about: str, config: StreamConfig) -> Iterator[Check]:
    """Return where its messages come from and go to, if not as they are published."""
    look = "What an origin forgets, or a filter leaves out, is missing here: look at retention and limits there too"
    if config.mirror is not None:
        yield note(about, "mirror", f"it copies {config.mirror.name} and takes no publish of its own", look)
    if config.sources:
        names = ", ".join(sorted({origin.name for origin in config.sources}))
        yield note(about, "sources", f"messages come from {names} too", look)
    if config.subject_transform is not None:
        src, dest = config.subject_transform.src or ALL, config.subject_transform.dest
        mend = "Consumers name subjects as they are stored; what was stored before keeps the subject it had"
        yield note(about, "transform", f"what comes as {src} is stored as {dest}", mend)
    if config.republish is not None:
        src, dest = config.republish.src or ALL, config.republish.dest
        mend = f"See that no stream takes {dest}, which would hold every event once more"
        yield note(about, "republish", f"what is stored as {src} is published on as {dest}", mend)


async def held(
    client: Client,
    definition: ConsumerDefinition,
    row: Row,
    settings: Settings,
    found: StreamInfo,
    durable_mark: DurableMark | None = None,
) -> list[Check]:
    """Check the durable of one consumer, against what it should be."""
    about, policy = definition.name, settings.policy(definition.name)
    wanted = DurableSpec(
        stream=definition.stream,
        name=row["durable"],
        subjects=definition.subjects,
        contiguous=definition.sequence == "contiguous",
        batch=settings.batch.max_rows,
        ack_wait_s=policy.ack_wait_s,
        durable_mark=durable_mark,
    )
    try:
        durable.check_stream(wanted, found.config)
    except ProjectionistError as error:
        return [attention(about, "stream", error.message, error.remedy)]
    checks = []
    if why := durable.unread(wanted, found.config):
        mend = "What it holds is read on; for more, mend the subjects of the stream or the consumer"
        checks.append(attention(about, "subjects", why, mend))
    try:
        there = await api.consumer(client, definition.stream, row["durable"])
    except BrokerError as error:
        return [*checks, _missing(about, row, error)]
    return [*checks, *_durable(about, wanted, there, found, row)]


def _missing(about: str, row: Row, error: BrokerError) -> Check:
    """Return the check about a durable that the broker did not show."""
    if not isinstance(error, ConsumerMissing):
        return attention(about, "durable", error.message, error.remedy)
    if row["floor_s"] is None:
        return note(about, "durable", "it has never run")
    mend = "Start it: it goes on at the floor that PostgreSQL remembers (docs/operations/durable-changed.md)"
    return attention(about, "durable", f"durable {row['durable']} is gone", mend)


def _durable(
    about: str, wanted: DurableSpec, there: api.DurableInfo, found: StreamInfo, row: Row
) -> Iterator[Check]:
    yield from _settings(about, wanted, there)
    if there.ack_floor.stream_seq > found.state.last_seq:
        yield attention(
            about,
            "floor",
            f"it has acked {there.ack_floor.stream_seq}, the stream ends at {found.state.last_seq}",
            "The stream lost its end or was replaced: see docs/operations/stream-regressed.md",
        )
    p99_s = (row["p99_ms"] or 0) / 1000
    if p99_s * SLOWEST > wanted.ack_wait_s:
        yield attention(
            about,
            "ack wait",
            f"99 of 100 batches take up to {p99_s:.1f} s, the ack wait is {wanted.ack_wait_s:g} s",
            f"Set ack_wait_s of [consumers.{about}] to {p99_s * SLOWEST:.0f} or more, or make batches smaller",
        )
    yield well(about, "lag", f"{there.num_pending:,} messages behind, {there.num_ack_pending:,} unacked")


def _settings(about: str, wanted: DurableSpec, there: api.DurableInfo) -> Iterator[Check]:
    try:
        durable.check_durable(wanted, there)
    except ProjectionistError as error:
        yield attention(about, "durable", error.message, error.remedy)
    if durable.refiltered(wanted, there):
        mend = (
            "A consumer that runs sets it right and reads what was passed over; have whatever changes it stop"
        )
        let = ", ".join(there.config.filters)
        yield attention(about, "filter", f"it lets {let} through, not {wanted.subjects.filter}", mend)
    if there.paused:
        mend = f"nats consumer resume {wanted.stream} {wanted.name}"
        yield attention(about, "durable", f"it is paused until {there.config.pause_until}", mend)
    if durable.limited(there):
        mend = "A consumer that runs sets it right; have whatever limits what may be ordered of it stop"
        yield attention(about, "durable", "the broker refuses orders as large as ours", mend)
    if drift := durable.drifted(there, durable.configuration(wanted)):
        mend = (
            "A start sets it right; if it comes back, a process has other settings, "
            "or something else manages this durable"
        )
        yield attention(about, "durable", f"{'; '.join(drift)}", mend)
