"""An app inside a program that runs on uvloop records, publishes, applies, waits and reads as elsewhere."""

from __future__ import annotations

import asyncio

import asyncpg
import msgspec
import pytest
import uvloop
from tests.support.recording import CartOpened, CartPaid, RecordingApp
from tests.support.servers import Servers, Stream
from tests.support.waiting import HANG_S

from projectionist.api import App
from projectionist.core.settings.settings import Telemetry


@pytest.fixture
def cart(servers: Servers, database: str, stream: Stream) -> RecordingApp:
    return RecordingApp(servers, database, stream)


def test_an_app_runs_on_uvloop(cart: RecordingApp, database: str) -> None:
    settings = msgspec.structs.replace(cart.settings, telemetry=Telemetry(allow_unmonitored=True))
    app = App(projections=[cart.view], streams=cart.app.streams, settings=settings)

    async def story() -> None:
        assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
        async with app.running(migrate=True), app.publisher() as publisher:
            connection = await asyncpg.connect(database)
            try:
                async with connection.transaction():
                    first = await app.outbox(connection).record(
                        "cart/1", CartOpened("ann"), expected_version=0
                    )
            finally:
                await connection.close()
            second = await publisher.record("cart/2", CartOpened("bob"), CartPaid(3), expected_version=0)
            for recorded in (first, second):
                assert (await app.wait_for(cart.view, recorded, timeout_s=HANG_S)).is_applied
            assert await app.read(cart.view, "2") == cart.view(cart_id="2", customer="bob", cents=3)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())
