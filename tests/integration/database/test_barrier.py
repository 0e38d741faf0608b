"""The barrier that keeps batches out: whoever holds it and freezes is ended, since it keeps no deadline of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.shop import shop
from tests.support.waiting import HANG_S

from projectionist.core.postgres import connections as db
from projectionist.core.postgres.error_class import is_transient
from projectionist.runner.database.barrier import alone

pytestmark = pytest.mark.asyncio


async def test_who_freezes_while_keeping_batches_out_is_ended_a_second_after_its_deadline(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    number = await inspection.consumer_number(live, "Orders")
    held, awake = threading.Event(), threading.Event()

    async def freeze() -> None:
        connection = await db.connect(live.settings.postgres, application_name="frozen")
        try:
            async with alone(connection, SCHEMA, number, "join", within_s=0.1):
                held.set()
                awake.wait(2 * HANG_S)  # its event loop stands still, as in a process that was stopped
                await connection.execute("select 1")
        finally:
            connection.terminate()

    frozen = asyncio.create_task(asyncio.to_thread(asyncio.run, freeze()))
    await asyncio.to_thread(held.wait, HANG_S)
    connection = await db.connect(live.settings.postgres, application_name="other")
    try:
        async with asyncio.timeout(25), alone(connection, SCHEMA, number, "join", wait_s=20):
            assert not awake.is_set()
    finally:
        awake.set()
        connection.terminate()
    with pytest.raises(Exception) as ended:  # noqa: PT011 - whichever says that the session is over
        await frozen
    assert is_transient(ended.value)
