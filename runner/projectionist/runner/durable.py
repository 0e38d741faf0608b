"""The durable a source reads from: what it must look like, and what of the stream it stands on is refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.errors import SettingsError
from projectionist.runner import jetstream
from projectionist.runner.jetstream import Consumer, ConsumerMissing, Stream, StreamConfig
from projectionist.runner.subjects import only, overlap

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.projections.subjects import Subjects

log = logging.getLogger(__name__)


class Wanted(msgspec.Struct, frozen=True):
    """What a source needs its durable to be."""

    stream: str
    name: str
    subjects: Subjects
    contiguous: bool
    batch: int
    ack_wait_s: float


class StreamUnfit(SettingsError):
    """The stream does not keep what this consumer has to see. Change the stream, or the consumer."""


class DurableUnfit(SettingsError):
    """A durable of this name is there and works in another way. Delete it: the inbox knows what comes."""


async def prepare(client: Client, wanted: Wanted) -> tuple[Stream, Consumer]:
    """The stream and the durable, which is created if it is missing and brought to our sizes if not."""
    stream = await jetstream.stream(client, wanted.stream)
    check_stream(wanted, stream.config)
    config = configuration(wanted, stream.config)
    try:
        found = await jetstream.consumer(client, wanted.stream, wanted.name)
    except ConsumerMissing:
        log.info("durable %s of stream %s: created", wanted.name, wanted.stream)
        return stream, await jetstream.put_consumer(client, wanted.stream, config, action="create")
    check_durable(wanted, found, config)
    if drifted(found, config):
        log.info(
            "durable %s of stream %s: sizes changed to those of the settings", wanted.name, wanted.stream
        )
        found = await jetstream.put_consumer(client, wanted.stream, config, action="update")
    return stream, found


def drifted(found: Consumer, config: dict[str, Any]) -> list[str]:
    """Which sizes of the durable are not those of the settings: others change them, or have other settings."""
    return [
        f"{size} is {is_}, not {config[size]}"
        for size in ("ack_wait", "max_ack_pending")
        if (is_ := getattr(found.config, size)) != config[size]
    ]


def configuration(wanted: Wanted, stream: StreamConfig) -> dict[str, Any]:
    """The durable's configuration, as the broker's API takes it."""
    config: dict[str, Any] = {
        "durable_name": wanted.name,
        "name": wanted.name,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "ack_wait": round(wanted.ack_wait_s * 1e9),
        "max_deliver": -1,
        "max_ack_pending": 6 * wanted.batch,  # two being settled, one read, one being read, two on their way
    }
    filter_subject = only(wanted.subjects.filter, stream.subjects or ())
    return config | ({"filter_subject": filter_subject} if filter_subject else {})


def check_stream(wanted: Wanted, stream: StreamConfig) -> None:
    """Refuse a stream that does not keep what `wanted` has to see, or holds nothing of it."""
    faults = list(_forgets(stream) if wanted.contiguous else ())
    if stream.retention != "limits":
        faults.insert(0, f"has retention {stream.retention}, which removes what others have acked")
    if faults:
        raise StreamUnfit(
            f"Stream {wanted.stream} {', '.join(faults)}: "
            f"{wanted.name} could not tell a lost event from a removed one",
            remedy="Use a stream with retention limits that keeps every event"
            + (", or sequence='monotonic'" if stream.retention == "limits" else ""),
        )
    filters = [pattern.filter for pattern in wanted.subjects.patterns]
    if stream.subjects and not any(overlap(taken, ours) for taken in stream.subjects for ours in filters):
        raise StreamUnfit(
            f"Stream {wanted.stream} takes {', '.join(stream.subjects)}, "
            f"and {wanted.name} reads {', '.join(wanted.subjects.texts)}: no subject is both",
            remedy=f"Mend the subjects of {wanted.name}, or of the stream",
        )


def check_durable(wanted: Wanted, found: Consumer, config: dict[str, Any]) -> None:
    """Refuse a durable that would deliver other events, or in another way."""
    expected = {
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "max_deliver": -1,
        "filter_subject": config.get("filter_subject", ""),
        "filter_subjects": [],
        "backoff": [],
        "deliver_subject": "",
        "headers_only": False,
    }
    faults = [
        f"{field} is {is_!r}, not {should!r}"
        for field, should in expected.items()
        if (is_ := getattr(found.config, field)) != should
    ]
    if faults:
        raise DurableUnfit(
            f"Durable {wanted.name} of stream {wanted.stream} is another one: {'; '.join(faults)}",
            remedy="Delete it and start again: everything is delivered once more, and the inbox knows it",
        )


def _forgets(stream: StreamConfig) -> Sequence[str]:
    faults = {
        "keeps a limited number of messages per subject": stream.max_msgs_per_subject > 0,
        "allows rollups": stream.allow_rollup_hdrs,
        "allows a time to live per message": stream.allow_msg_ttl,
    }
    return [fault for fault, there in faults.items() if there]
