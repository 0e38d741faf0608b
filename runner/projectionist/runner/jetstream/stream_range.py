"""A part of a stream as a person names it: by sequences, or by the times at which messages were stored."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.cloudevents import timestamp
from projectionist.runner.jetstream import api

if TYPE_CHECKING:
    from nats.aio.client import Client


class Range(msgspec.Struct, frozen=True):
    """Stream sequences, both included."""

    first: int
    last: int


async def span_of(client: Client, stream: str, first: str, last: str | None) -> Range:
    """Return a range from what a person wrote: sequences, or times like 2026-01-31T12:00:00Z."""
    state = (await api.stream(client, stream)).state
    begin = await _sequence(client, stream, state, first)
    if last is None:
        return Range(begin, state.last_seq)
    end = int(last) if last.isdigit() else await _sequence(client, stream, state, last) - 1
    return Range(begin, end)


async def _sequence(client: Client, stream: str, state: api.StreamState, text: str) -> int:
    """Return a sequence as it stands, or the first message at or after a time."""
    if text.isdigit():
        return int(text)
    return await first_stored_from(client, stream, state, timestamp(text).astimezone(UTC))


async def first_stored_from(client: Client, stream: str, state: api.StreamState, wanted: datetime) -> int:
    """Return the sequence of the first message that was stored at or after a time; behind the last, if none was."""
    low, high = state.first_seq, state.last_seq + 1
    while low < high:
        middle = (low + high) // 2
        message = await api.message(client, stream, middle, ">")
        if message is None or _stored(message) >= wanted:
            high = middle
        else:
            low = message.seq + 1
    return low


def _stored(message: api.StoredMessage) -> datetime:
    return timestamp(message.time).astimezone(UTC)
