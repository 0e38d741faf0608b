"""NATS as tests ask it: with the patience of a test, not with nats-py's half second and five seconds."""

from __future__ import annotations

import asyncio
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from tests.support.waiting import HANG_S


class PatientClient(Client):
    """A plain nats-py client whose requests wait as long as a busy machine takes."""

    async def request(self, *args: Any, **options: Any) -> Msg:
        return await super().request(*args, **{"timeout": HANG_S, **options})

    def jetstream(self, **options: Any) -> JetStreamContext:
        return super().jetstream(**{"timeout": HANG_S, **options})


async def patient(url: str, **options: Any) -> PatientClient:
    """A connected client of the test's own."""
    client = PatientClient()
    await client.connect(url, **options)
    return client


async def peer_takes(jetstream: JetStreamContext, stream: str, durable: str, count: int) -> list[Msg]:
    """The next messages of a durable, as another process takes them; what becomes of them is the caller's."""
    pull = await jetstream.pull_subscribe_bind(durable, stream)
    taken: list[Msg] = []
    async with asyncio.timeout(HANG_S):
        while len(taken) < count:
            taken += await pull.fetch(count - len(taken), timeout=HANG_S)
    await pull.unsubscribe()
    return taken
