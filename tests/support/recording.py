"""What tests of recording share: an order's events, a declared stream of one test, and what the stream then holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from nats.aio.client import Client
from nats.js.api import RawStreamMsg
from tests.support.outbox import FAST
from tests.support.outbox import Outbox as RelayHarness
from tests.support.peers import patient
from tests.support.servers import Servers, Stream

from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Postgres, Settings
from projectionist.outbox.providers import ProviderContext
from projectionist.outbox.providers.recorded_events import RecordedEvents, RecordedEventSettings
from projectionist.outbox.relay.relay import POLL_S
from projectionist.projections import Event, Projection, on
from projectionist.projections import Stream as DeclaredStream
from projectionist.runner import App


class CartOpened(Event, type="recording.opened"):
    customer: str


class CartPaid(Event, type="recording.paid", schema=2):
    cents: int = 0


class RecordingApp:
    """An app whose declared stream is that of one test."""

    def __init__(self, servers: Servers, database: str, stream: Stream, subject: str = "cart.{id}") -> None:
        self.stream = stream
        self.servers = servers
        declared = DeclaredStream(
            stream.name, f"{stream.name}.{subject}", source="cart-api", events=[CartOpened, CartPaid]
        )

        class CartView(
            Projection, stream=declared, subjects=declared.subject, table="cart_view", key="cart_id"
        ):
            cart_id: str
            customer: str = ""
            cents: int = 0

            @on(CartOpened)
            def opened(self, event: CartOpened) -> None:
                self.customer = event.customer

            @on(CartPaid)
            def paid(self, event: CartPaid) -> None:
                self.cents += event.cents

        self.view = CartView
        self.settings = Settings(
            postgres=Postgres(url=Url(database)), nats=Nats(url=(Url(servers.nats_url),))
        )
        self.app = App(projections=[CartView], streams=[declared], settings=self.settings)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A connection to the server."""
        client = await patient(self.servers.nats_url, pending_size=0)
        try:
            yield client
        finally:
            await client.close()

    @asynccontextmanager
    async def relaying(self, harness: RelayHarness, *, poll_s: float = POLL_S) -> AsyncIterator[None]:
        """A relay at work in this process."""
        async with (
            self.client() as client,
            relaying_streams(harness, client, self.stream.name, poll_s=poll_s),
        ):
            yield

    async def stored(self) -> list[RawStreamMsg]:
        """All messages of the stream."""
        async with self.client() as client:
            jetstream = client.jetstream()
            last = (await jetstream.stream_info(self.stream.name)).state.last_seq
            return [await jetstream.get_msg(self.stream.name, seq) for seq in range(1, last + 1)]

    async def told(self) -> list[tuple[Any, ...]]:
        """Id, type, version and body of all messages of the stream."""
        names = ("ce-id", "ce-type", "ce-aggregateversion")
        return [
            (*((message.headers or {}).get(name) for name in names), (message.data or b"").decode())
            for message in await self.stored()
        ]


@asynccontextmanager
async def relaying_streams(
    harness: RelayHarness, client: Client, name: str, *, poll_s: float = POLL_S
) -> AsyncIterator[None]:
    """A relay in this process that publishes what is recorded for a stream."""

    async def given() -> Client:
        return client

    settings = RecordedEventSettings(retry=FAST)
    provider = RecordedEvents(name, settings, ProviderContext(nats=given))
    await provider.open()
    async with harness.relaying(provider, poll_s=poll_s):
        yield
