"""A stream and a durable as the broker shows them to the judge, and the way back to an earlier message."""

from __future__ import annotations

import logging
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.nats import api_subjects
from projectionist.core.testpoints import announce
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import AckFloor, ConsumerConfig, DurableInfo, message
from projectionist.runner.stream_guard.verdict import Checkpoint, MessageFingerprint, Observation

if TYPE_CHECKING:
    from datetime import datetime

    from nats.aio.client import Client, ServerVersion

    from projectionist.runner.jetstream.api import StreamInfo
    from projectionist.runner.stream_guard.ack_audit import ProvenFloor

log = logging.getLogger("projectionist.runner")


class _Reset(msgspec.Struct):
    reset_seq: int


def fresh(created: datetime) -> DurableInfo:
    """Return a durable that is not there, as one that has delivered nothing."""
    return DurableInfo(
        config=ConsumerConfig(), created=created, ack_floor=AckFloor(0), num_pending=0, num_ack_pending=0
    )


def unread(stream: StreamInfo, durable_created: datetime | None) -> Checkpoint:
    """Return the checkpoint of a stream of which nothing is settled."""
    return Checkpoint(
        created=stream.created,
        floor=MessageFingerprint(),
        top=MessageFingerprint(),
        seen=max(stream.state.first_seq - 1, 0),
        deliveries=0,
        durable_created=durable_created,
    )


async def read_broker(client: Client, name: str, durable: str) -> tuple[StreamInfo, DurableInfo]:
    """Return the two as they are now. The durable is asked first: what it has delivered is then part of the stream that
    is seen, however much is published meanwhile."""
    found = await api.consumer(client, name, durable)
    return await api.stream(client, name), found


async def message_fingerprint(client: Client, stream: str, seq: int) -> MessageFingerprint | None:
    """Return what the stream's leader holds at this sequence; None for nothing."""
    if seq < 1:
        return None
    found = await message(client, stream, seq)
    if found is None:
        return None
    digest = blake2b(digest_size=16)
    for part in (found.subject.encode(), found.hdrs or b"", found.data):
        digest.update(len(part).to_bytes(8) + part)
    return MessageFingerprint(seq, digest.digest(), found.time)


async def observe_stream(
    client: Client, name: str, stream: StreamInfo, durable: DurableInfo, known: Checkpoint
) -> Observation:
    """Return stream and durable, with what stands where something is remembered."""
    at_floor = await message_fingerprint(client, name, known.floor.seq)
    at_top = at_floor if known.top == known.floor else await message_fingerprint(client, name, known.top.seq)
    return seen(stream, durable, at_floor, at_top)


def seen(
    stream: StreamInfo,
    durable: DurableInfo,
    at_floor: MessageFingerprint | None,
    at_top: MessageFingerprint | None,
) -> Observation:
    """Return stream and durable as the judge wants them."""
    return Observation(
        created=stream.created,
        first_seq=stream.state.first_seq,
        last_seq=stream.state.last_seq,
        at_floor=at_floor,
        at_top=at_top,
        ack_floor=durable.ack_floor.stream_seq,
        delivered=durable.delivered.stream_seq,
        deliveries=durable.delivered.consumer_seq,
        durable_created=durable.created,
        mirror_of=None if stream.config.mirror is None else stream.config.mirror.name,
    )


async def remembered(
    client: Client,
    name: str,
    stream: StreamInfo,
    durable: DurableInfo,
    before: Checkpoint,
    proof: ProvenFloor,
) -> Checkpoint:
    """Return what is to be remembered of them from now on; spots that have not moved are not asked for again."""
    floor, top = proof.floor, stream.state.last_seq
    quiet = proof.acked is not None and durable.num_pending == 0 and durable.num_ack_pending == 0
    return Checkpoint(
        created=stream.created,
        floor=before.floor
        if before.floor.seq == floor
        else await message_fingerprint(client, name, floor) or MessageFingerprint(floor),
        top=before.top
        if before.top.seq == top
        else await message_fingerprint(client, name, top) or MessageFingerprint(top),
        seen=max(top if quiet else floor, stream.state.first_seq - 1),
        deliveries=durable.delivered.consumer_seq,
        durable_created=durable.created,
        acked=proof.acked,
        quiet=quiet,
    )


async def seek(client: Client, stream: str, durable: str, seq: int, *, back: bool) -> bool:
    """Have the durable deliver from `seq` on, whatever was acked; return whether it is still the one that it was.

    A broker that cannot do that (before 2.14) can still go `back`: the durable is deleted, and the next process that
    opens it makes it anew from the first message on. Where it would go forward it is left there, which repeats more.
    """
    announce("durable.moving")
    if moves(client.connected_server_version):
        body = msgspec.json.encode({"seq": max(seq, 1)})
        await api.ask(client, api_subjects.consumer_reset(stream, durable), body, _Reset)
        return True
    log.warning("durable %s cannot be moved on a server before 2.14, so more is read again", durable)
    if back:
        await api.drop_consumer(client, stream, durable)
    return not back


def moves(version: ServerVersion) -> bool:
    """Return whether a server can move a durable. One that cannot does not say so: it does not answer."""
    return (version.major, version.minor) >= (2, 14)
