"""The source's promises, on the wire of our own and on the plain client it falls back to."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from tests.contract.durable_suite import DurableSuite
from tests.contract.source_suite import SourceSuite
from tests.support.proxy import proxied
from tests.support.servers import Servers, Stream
from tests.support.source_bench import Bench, take_all
from tests.support.waiting import eventually, listening

from projectionist.core.nats import fast_client

pytestmark = pytest.mark.asyncio


class TestOnTheWire(SourceSuite, DurableSuite):
    async def test_it_is_the_wire(self, bench: Bench) -> None:
        assert isinstance(bench.client, fast_client.Client)

    async def test_acks_that_a_dead_connection_held_are_never_sent(
        self, servers: Servers, stream: Stream
    ) -> None:
        """On the plain client they are: public names cannot take them back."""
        async with proxied(servers.nats_url) as proxy, AsyncExitStack() as stack:
            bench = Bench(servers, stream, stack)
            await bench.start(proxy.url)
            client = bench.client
            assert isinstance(client, fast_client.Client)
            await bench.publish(6)
            source = await bench.open()
            taken = await take_all(source, 6)
            proxy.cut()
            client.post([b"elsewhere"] * 64, b"x" * 500_000)

            async def stuck() -> bool:
                return client.pending_data_size == 0

            await eventually(stuck)
            with listening() as heard:
                assert source.ack(taken) == 6
                assert client.pending_data_size > 0
                await client.force_reconnect()
                await heard.wait("broker.reconnected")
            await client.flush()
            assert (await bench.consumer())["num_ack_pending"] == 6
            await bench.publish(1)
            after = await take_all(source, 1)
            assert (source.ack(taken), source.ack(after)) == (0, 1)


class TestOnThePlainClient(SourceSuite, DurableSuite):
    @pytest.fixture
    def way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fast_client, "available", lambda: "it is taken away for this test")

    async def test_it_is_plain(self, bench: Bench) -> None:
        assert not isinstance(bench.client, fast_client.Client)
