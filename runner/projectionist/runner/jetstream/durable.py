"""The durable a source reads from: what it must look like, and what of the stream it stands on is refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core.errors import SettingsError
from projectionist.core.nats.subject_relations import overlap
from projectionist.runner.jetstream import api, durable_owner, stream_subjects
from projectionist.runner.jetstream.api import ConsumerMissing, DurableInfo, StreamConfig, StreamInfo

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.projections.compiled.subject_pattern import Subjects
    from projectionist.runner.jetstream.durable_owner import DurableMark

log = logging.getLogger(__name__)

_ORDERS = ("max_batch", "max_expires", "max_bytes")
"""Limits of what may be ordered at once. Ours are larger, and would be refused for ever."""
_CHANGED = ("ack_wait", "max_ack_pending", "filter_subject", "metadata", *_ORDERS)
"""What of a durable is brought to ours where it stands."""


class DurableSpec(msgspec.Struct, frozen=True):
    """Says what a source needs its durable to be."""

    stream: str
    name: str
    subjects: Subjects
    contiguous: bool
    batch: int
    ack_wait_s: float
    durable_mark: DurableMark | None = None
    """Whose it is; None for a durable that nobody owns."""


class StreamUnfit(SettingsError):
    """The stream does not keep what this consumer has to see. Change the stream, or the consumer."""


class DurableUnfit(SettingsError):
    """A durable of this name is there and works in another way. Delete it: the inbox knows what comes."""


async def prepare(client: Client, wanted: DurableSpec) -> tuple[StreamInfo, DurableInfo]:
    """Return the stream and the durable, which is created if it is missing and brought to our filter and sizes if not.

    Raises DurableNotOurs, before anything is changed, where the durable belongs to another database.
    """
    stream = await api.stream(client, wanted.stream)
    check_stream(wanted, stream.config)
    config = configuration(wanted)
    try:
        found = await api.consumer(client, wanted.stream, wanted.name)
    except ConsumerMissing:
        await _check_subjects(client, wanted, stream.config)
        return stream, await _create(client, wanted, config)
    check_durable(wanted, found)
    if found.config.passes_over(wanted.subjects.filter):
        return stream, await _create_anew(client, wanted, found, config)
    if refiltered(wanted, found) or limited(found) or drifted(found, config) or lacks_mark(wanted, found):
        found = await update(client, wanted, found)
    return stream, found


async def update(client: Client, wanted: DurableSpec, found: DurableInfo) -> DurableInfo:
    """Bring a durable that has not passed over anything to our filter and sizes, where it stands."""
    log.info("durable %s of stream %s: changed to what it should be", wanted.name, wanted.stream)
    config = configuration(wanted, found.config.metadata)
    changes = {name: config[name] for name in _CHANGED}
    return await api.change_consumer(client, wanted.stream, wanted.name, changes)


async def _create(client: Client, wanted: DurableSpec, config: dict[str, Any]) -> DurableInfo:
    log.info("durable %s of stream %s: created", wanted.name, wanted.stream)
    return await api.put_consumer(client, wanted.stream, config, action="create")


async def _create_anew(
    client: Client, wanted: DurableSpec, found: DurableInfo, config: dict[str, Any]
) -> DurableInfo:
    """Delete a durable that has gone by events of ours, since no update goes back to them.

    Whoever judges sees that it is another one, and goes on behind the floor that PostgreSQL remembers; so does who
    finds it missing, should this process end in between.
    """
    log.warning(
        "durable %s of stream %s was made to let only %s through: made anew, read again from the last floor",
        wanted.name,
        wanted.stream,
        ", ".join(found.config.filters),
    )
    await api.drop_consumer(client, wanted.stream, wanted.name)
    return await _create(client, wanted, config)


def lacks_mark(wanted: DurableSpec, found: DurableInfo) -> bool:
    """Return whether it does not say whose it is, or not as it is now."""
    return wanted.durable_mark is not None and durable_owner.lacks(wanted.durable_mark, found.config.metadata)


def refiltered(wanted: DurableSpec, found: DurableInfo) -> bool:
    """Return whether its filter is not ours."""
    return found.config.filters != [wanted.subjects.filter]


def limited(found: DurableInfo) -> bool:
    """Return whether somebody has set a limit to what may be ordered at once."""
    return any(getattr(found.config, limit) for limit in _ORDERS)


def drifted(found: DurableInfo, config: dict[str, Any]) -> list[str]:
    """Return which sizes of the durable are not those of the settings: others change them, or have other settings."""
    return [
        f"{name} is {is_ / unit:.12g}, the settings here say {config[size] / unit:.12g}"
        for size, name, unit in (("ack_wait", "ack_wait_s", 1e9), ("max_ack_pending", "max_ack_pending", 1))
        if (is_ := getattr(found.config, size)) != config[size]
    ]


def configuration(wanted: DurableSpec, metadata: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the durable's configuration. The filter is ours whatever the stream takes today: that may change at any
    time. Of its present `metadata` stays what others have written."""
    return {
        "durable_name": wanted.name,
        "name": wanted.name,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "ack_wait": round(wanted.ack_wait_s * 1e9),
        "max_deliver": -1,
        "max_ack_pending": 6 * wanted.batch,  # two being settled, one read, one being read, two on their way
        "filter_subject": wanted.subjects.filter,
        **dict.fromkeys(_ORDERS, 0),
        "metadata": dict(metadata or {})
        if wanted.durable_mark is None
        else wanted.durable_mark.metadata(metadata),
    }


def check_stream(wanted: DurableSpec, stream: StreamConfig) -> None:
    """Refuse a stream that does not keep what `wanted` has to see."""
    faults = list(forgets(stream) if wanted.contiguous else ())
    if stream.retention != "limits":
        faults.insert(0, f"has retention {stream.retention}, which removes what others have acked")
    if faults:
        raise StreamUnfit(
            f"Stream {wanted.stream} {', '.join(faults)}: "
            f"{wanted.name} could not tell a lost event from a removed one",
            remedy="Use a stream with retention limits that keeps every event"
            + (", or sequence='monotonic'" if stream.retention == "limits" else ""),
        )


def unread(wanted: DurableSpec, stream: StreamConfig) -> str:
    """Say why nothing that the stream takes now is read; empty if something is."""
    taken, filters = (
        stream_subjects.subjects(stream),
        [pattern.filter for pattern in wanted.subjects.patterns],
    )
    if any(overlap(one, ours) for one in taken for ours in filters):
        return ""
    reads = ", ".join(wanted.subjects.texts)
    return f"Stream {wanted.stream} takes {', '.join(taken)}, and {wanted.name} reads {reads}: no subject is both"


async def _check_subjects(client: Client, wanted: DurableSpec, stream: StreamConfig) -> None:
    """Refuse to begin on a stream that neither takes nor holds anything to be read. Who has begun may go on: subjects
    are taken off streams, and may come back."""
    why = unread(wanted, stream)
    if why and await api.message(client, wanted.stream, 1, wanted.subjects.filter) is None:
        raise StreamUnfit(why, remedy=f"Mend the subjects of {wanted.name}, or of the stream")


def check_durable(wanted: DurableSpec, found: DurableInfo) -> None:
    """Refuse a durable that is another database's, or would deliver in another way."""
    if wanted.durable_mark is not None:
        durable_owner.refuse(wanted.durable_mark, wanted.stream, wanted.name, found.config.metadata)
    expected = {
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "max_deliver": -1,
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


def forgets(stream: StreamConfig) -> Sequence[str]:
    """Return how it loses single events of an aggregate."""
    faults = {
        "keeps a limited number of messages per subject": stream.max_msgs_per_subject > 0,
        "allows rollups": stream.allow_rollup_hdrs,
        "allows a time to live per message": stream.allow_msg_ttl,
    }
    return [fault for fault, there in faults.items() if there]
