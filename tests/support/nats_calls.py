"""A provider that publishes to NATS and its calls, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from nats.aio.client import Client
from tests.support.peers import patient
from tests.support.servers import Servers

from projectionist.core.settings.settings import Settings
from projectionist.core.settings.sources import Layers, build
from projectionist.outbox.providers import NatsPublish, ProviderContext, Reply, Request
from projectionist.outbox.providers.nats import NatsSettings
from projectionist.outbox.providers.runtime import attempt, prepare


@asynccontextmanager
async def connected(servers: Servers) -> AsyncIterator[Client]:
    client = await patient(servers.nats_url, pending_size=0)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def publisher(
    client: Client, subject: str, cls: type[NatsPublish] = NatsPublish, **section: Any
) -> AsyncIterator[NatsPublish]:
    async def given() -> Client:
        return client

    settings = build(
        NatsSettings, {"subject": subject, **section}, ("providers", "events"), Layers(Settings, None, {})
    )
    provider = cls("events", settings, ProviderContext(nats=given))
    await provider.open()
    try:
        yield provider
    finally:
        await provider.close()


async def rendered(provider: NatsPublish, key: str = "k1", order: str = "o-1", **more: Any) -> Request:
    request = Request(
        key=key,
        provider="events",
        destination="events",
        intent="OrderShipped",
        body=msgspec.json.encode({"order_id": order}),
        id="event-1",
        created=datetime(2026, 1, 2, tzinfo=UTC),
        **more,
    )
    wire = prepare(provider, request)
    assert isinstance(wire, bytes), wire
    return msgspec.structs.replace(request, wire=wire, lookup_hint=await provider.lookup_hint(request))


async def sent(provider: NatsPublish, **more: Any) -> Reply:
    return await attempt(provider, await rendered(provider, **more))
