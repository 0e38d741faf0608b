"""A consumer whose stream is not there yet: `status` names it, and the command that makes it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.recording import RecordingApp
from tests.support.waiting import eventually

from projectionist.api import App
from projectionist.core.settings.settings import Telemetry

pytestmark = pytest.mark.asyncio


async def test_status_names_the_stream_that_a_consumer_waits_for(
    live: ConsumerHarness, database: str, tmp_path: Path
) -> None:
    cart = RecordingApp(live.servers, database, live.stream)
    settings = msgspec.structs.replace(cart.settings, telemetry=Telemetry(allow_unmonitored=True))
    app = App(projections=[cart.view], streams=cart.app.streams, settings=settings)
    await live.nats.jetstream().delete_stream(live.stream.name)
    live.tampered = True  # there is no stream to compare with
    told = f"stream {live.stream.name} does not exist yet. `projectionist migrate --streams` makes"

    async def said() -> str | None:
        out = (await Cli(live, tmp_path).run("status")).out
        return out if told in out else None

    async with app.running(migrate=True):
        text = await eventually(said)
    assert "CartView: a process is there to run it, and waits" in str(text)
    assert "no process runs it" not in str(text)
