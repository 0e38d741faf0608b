"""Asks the broker for a stream's configuration, and when it was made, to the digit that readers of tokens ask for."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from nats.js.api import StreamInfo
from nats.js.errors import APIError

from projectionist.core.nats import api_subjects

if TYPE_CHECKING:
    from nats.aio.client import Client


class _Made(msgspec.Struct):
    # nats-py cuts what is finer than a microsecond off, msgspec rounds: one reader of it, or tokens differ.
    created: datetime | None = None


async def describe_stream(client: Client, name: str, seconds: float = 5) -> tuple[StreamInfo, datetime]:
    """Return the stream as nats-py describes it, and when it was made. Raises what nats-py raises."""
    answer = (await client.request(api_subjects.stream_info(name), b"", timeout=seconds)).data
    found = msgspec.json.decode(answer)
    if "error" in found:
        raise APIError.from_error(found["error"])
    made = msgspec.json.decode(answer, type=_Made)
    if made.created is None:
        raise APIError(description=f"the broker does not say when the stream {name} was made")
    return StreamInfo.from_response(found), made.created
