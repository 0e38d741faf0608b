"""Addresses that a server names: a login in clear goes to none that the settings do not name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from nats.aio.client import Client
from tests.support.nats_server import address, server
from tests.support.scrape import free_port
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.core.nats import connections, fast_client
from projectionist.core.nats.careful_client import CarefulClient
from projectionist.core.settings.secret import Secret, Url
from projectionist.core.settings.settings import Nats

pytestmark = pytest.mark.asyncio

TOKEN = "canary-in-a-token"
LOGIN = f'authorization {{ token: "{TOKEN}" }}\n'


class Stranger:
    """Says that it is a NATS server, and notes who logs in with what."""

    def __init__(self) -> None:
        self.logins: list[tuple[str, str]] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.15.1","headers":true,"max_payload":1024}\r\n')
        line = await reader.readline()
        if line:
            said = json.loads(line.removeprefix(b"CONNECT "))
            self.logins.append((said["name"], said["auth_token"]))
        writer.transport.abort()


@asynccontextmanager
async def stranger() -> AsyncIterator[Stranger]:
    made = Stranger()
    listens = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listens.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        listens.close()


@pytest.mark.parametrize("known", [True, False], ids=["this nats-py", "another nats-py"])
async def test_a_token_goes_to_no_address_that_a_server_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """0.0.0.0 is this machine, and no loopback address: it stands for any other one."""
    if not known:
        monkeypatch.setattr(fast_client, "available", lambda: "taken away for this test")
    port, routes = free_port(), free_port()
    ours, plain = "ours", "plain nats-py"
    one = f'{LOGIN}cluster {{ name: x, listen: "127.0.0.1:{routes}" }}'
    route = f'routes: ["nats://127.0.0.1:{routes}"]'
    async with stranger() as other:
        named = f"0.0.0.0:{other.port}"
        two = f'{LOGIN}client_advertise: "{named}"\ncluster {{ name: x, listen: "127.0.0.1:-1", {route} }}'
        with server(tmp_path / "two", two), ExitStack() as first:
            first.enter_context(server(tmp_path / "one", one, port=port))
            await address(tmp_path / "one")
            settings = Nats(url=(Url(f"nats://127.0.0.1:{port}"),), token=Secret(TOKEN))
            client = await connections.connect(settings, name=ours)
            careless = await nats_py(port, plain)
            await eventually(lambda: knows(careless, named))
            with listening() as heard:
                first.close()
                await eventually(lambda: logged_in(other, plain))
                with server(tmp_path / "one", one, port=port):
                    await heard.wait("broker.reconnected")
                    assert set(other.logins) == {(plain, TOKEN)}
                    assert not await knows(client, named)
                    await client.close()
                    with suppress(ConnectionError):  # the stranger hangs up when it likes
                        await careless.close()


async def nats_py(port: int, name: str) -> Client:
    async def expected(_: Exception) -> None:
        """The server is killed."""

    client = Client()
    await client.connect(
        f"nats://127.0.0.1:{port}",
        name=name,
        token=TOKEN,
        error_cb=expected,
        reconnect_time_wait=1,
        max_reconnect_attempts=-1,
    )
    return client


async def knows(client: Client, place: str) -> bool:
    return any(one.uri.netloc == place for one in client._server_pool)


async def logged_in(other: Stranger, name: str) -> bool:
    return name in dict(other.logins)


async def test_an_address_of_this_machine_that_a_server_names_is_used(tmp_path: Path) -> None:
    routes = free_port()
    one = f'cluster {{ name: x, listen: "127.0.0.1:{routes}" }}'
    two = f'cluster {{ name: x, listen: "127.0.0.1:-1", routes: ["nats://127.0.0.1:{routes}"] }}'
    with server(tmp_path / "one", one) as first, server(tmp_path / "two", two) as second:
        other = (await address(second)).removeprefix("nats://")
        client = await connections.connect(Nats(url=(Url(await address(first)),)), name="test")
        assert isinstance(client, CarefulClient)
        async with asyncio.timeout(HANG_S):
            await eventually(lambda: knows(client, other))
        await client.close()
