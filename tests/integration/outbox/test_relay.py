"""The relay on a real PostgreSQL, with a provider that obeys a script."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.support.outbox import (
    Outbox,
    made,
    outbox,
    scripted,
)

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def rig(database: str) -> AsyncIterator[Outbox]:
    async with outbox(database) as rig:
        yield rig


async def test_an_intent_is_sent_once_and_its_reply_is_kept(rig: Outbox) -> None:
    stub = scripted()
    key = await rig.want(body={"order_id": "o-1"})
    async with rig.relaying(made(stub)):
        row = await rig.becomes(key, "sent")
    assert stub.executions == {key: 1}
    assert (row["status"], row["provider_id"], row["attempt"], row["open"]) == (
        "200",
        f"p-{key[:6]}",
        1,
        False,
    )
    assert row["settled"] is not None
    assert row["memory_s"] == 86_400
    (attempt,) = await rig.attempts(key)
    assert (attempt["attempt"], attempt["outcome"], attempt["status"]) == (1, "sent", "200")


async def test_many_intents_are_all_sent_once(rig: Outbox) -> None:
    stub = scripted()
    keys = {await rig.want(lane=f"order/{n % 40}") for n in range(200)}
    async with rig.relaying(made(stub)):
        await rig.all_become("sent")
    assert stub.executions == dict.fromkeys(keys, 1)
    assert set(stub.most_in_flight.values()) == {1}
