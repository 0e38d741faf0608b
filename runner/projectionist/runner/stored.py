"""Single messages of a stream, read from its leader: what a replica answers may be old."""

from __future__ import annotations

from base64 import b64decode
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.core import clock
from projectionist.core.wire import Arrival
from projectionist.runner.jetstream import MessageMissing, ask

if TYPE_CHECKING:
    from nats.aio.client import Client

NEVER = -1
"""The connection of an arrival that came over none of the source's: its ack is never sent."""


class Stored(msgspec.Struct, frozen=True):
    """A message as the stream keeps it."""

    subject: str
    seq: int
    time: datetime
    hdrs: str = ""
    data: str = ""

    @property
    def head(self) -> bytes | None:
        """Its headers, unread."""
        return b64decode(self.hdrs) if self.hdrs else None


class _Answer(msgspec.Struct):
    message: Stored


async def following(client: Client, stream: str, subject: str, seq: int) -> Stored | None:
    """The first message of `subject` (wildcards allowed) at sequence `seq` or after it, if there is one."""
    # Without a sequence the broker would answer with the last message instead of the first.
    return await _get(client, stream, {"seq": max(seq, 1), "next_by_subj": subject})


async def at(client: Client, stream: str, seq: int) -> Stored | None:
    """The message with this sequence, if the stream still holds it."""
    return await _get(client, stream, {"seq": seq})


def arrival(stored: Stored) -> Arrival:
    """The message as the reader takes it; it looks like a first delivery, and has no ack."""
    told = f"$JS.ACK.-.-.1.{stored.seq}.0.{int(stored.time.timestamp() * 1e9)}.0"
    return Arrival(
        stored.subject, told.encode(), stored.head, b64decode(stored.data), clock.now(), connection=NEVER
    )


async def _get(client: Client, stream: str, wanted: dict[str, Any]) -> Stored | None:
    try:
        body = msgspec.json.encode(wanted)
        return (await ask(client, f"STREAM.MSG.GET.{stream}", body, _Answer)).message
    except MessageMissing:
        return None
