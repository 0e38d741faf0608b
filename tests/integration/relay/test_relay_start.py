"""A relay that starts while what it needs is away waits for it, as a runner does, and says when it has begun."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from nats.aio.client import Client
from tests.support.outbox import Outbox
from tests.support.process import Child, projectionist
from tests.support.servers import Servers, Stream

from projectionist.core.nats import connections
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats

pytestmark = pytest.mark.asyncio

APP = "tests.support.relay_app:events"


@pytest_asyncio.fixture
async def client(servers: Servers) -> AsyncIterator[Client]:
    client = await connections.connect(Nats(url=(Url(servers.nats_url),)), name="test")
    yield client
    await client.close()


@pytest.fixture
def folder(tmp_path: Path, servers: Servers, database: str, stream: Stream) -> Path:
    (tmp_path / "projectionist.toml").write_text(f"""
        [postgres]
        url = "{database}"
        [nats]
        url = ["{servers.nats_url}"]
        [providers.events]
        subject = "{stream.subject("{{order_id}}")}"
    """)
    return tmp_path


async def begins(relay: Child) -> None:
    """It says so, and not before; asked to stop it stops."""
    await relay.heard("relay.running")
    await relay.said("relaying to events")
    relay.signal(signal.SIGTERM)
    assert (await relay.ended()).code == 0


@pytest.mark.parametrize("server", ["postgres", "nats"])
async def test_a_relay_that_starts_without_a_server_waits_for_it(
    servers: Servers, folder: Path, server: str
) -> None:
    getattr(servers, f"kill_{server}")()
    try:
        async with projectionist("relay", APP, cwd=folder) as relay:
            await relay.heard(f"{server}.reach.ill")
            assert "relaying to" not in relay.err
            servers.up()
            await begins(relay)
    finally:
        servers.up()


async def test_a_relay_that_starts_before_its_stream_waits_for_it(
    servers: Servers, folder: Path, harness: Outbox, client: Client, stream: Stream
) -> None:
    servers.delete_stream(stream)
    key = await harness.want("events", body={"order_id": "o-1"}, lane="order/o-1")
    async with projectionist("relay", APP, cwd=folder) as relay:
        await relay.heard("provider.waiting")
        assert "[providers.events]: no stream takes the subject" in relay.err
        assert "relaying to" not in relay.err
        await client.jetstream().add_stream(name=stream.name, subjects=[stream.subjects])
        await harness.becomes(key, "sent")
        await begins(relay)


async def test_a_relay_that_waits_can_be_stopped(servers: Servers, folder: Path, stream: Stream) -> None:
    servers.delete_stream(stream)
    async with projectionist("relay", APP, cwd=folder) as relay:
        await relay.heard("provider.waiting")
        relay.signal(signal.SIGTERM)
        assert (await relay.ended()).code == 0
