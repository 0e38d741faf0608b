"""Connections to a real NATS server: how they are refused, what they show, how they come back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]  # it comes without types
import pytest
import trustme
import uvloop
from nats.errors import FlushTimeoutError
from tests.support.gateway import Gateway, gateway
from tests.support.nats_server import address, public, seed, server, signed_in
from tests.support.proxy import proxied
from tests.support.servers import Servers
from tests.support.waiting import HANG_S, eventually, listening

from projectionist.core.nats import connections, fast_client
from projectionist.core.nats.connections import BrokerUnreachable
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.settings.secret import Secret, Url
from projectionist.core.settings.settings import Nats

pytestmark = pytest.mark.asyncio

CANARY = "canary-in-a-secret"


@pytest.fixture
def heard_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level(logging.DEBUG)
    yield caplog
    assert CANARY not in caplog.text


async def test_a_server_that_is_not_there_is_told_in_time_and_without_the_secret() -> None:
    settings = Nats(url=(Url(f"nats://user:{CANARY}@127.0.0.1:9"),))
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:9 cannot be reached: .*refused") as raised:
        async with asyncio.timeout(HANG_S):
            await connections.connect(settings, name="test", within_s=0.3)
    assert CANARY not in str(raised.value)
    assert raised.value.remedy


async def test_it_is_one_of_ours_and_keeps_nothing_back(servers: Servers) -> None:
    states: list[str] = []
    client = await connections.connect(
        Nats(url=(Url(servers.nats_url),)), name="test", on_state=states.append
    )
    assert isinstance(client, fast_client.Client)
    assert states == ["connected"]
    await client.close()
    assert states == ["connected", "closed"]


async def test_a_killed_server_is_come_back_to_and_each_change_is_told(
    servers: Servers, heard_log: pytest.LogCaptureFixture
) -> None:
    states: list[str] = []
    client = await connections.connect(
        Nats(url=(Url(servers.nats_url),)), name="test", on_state=states.append
    )
    with listening() as heard:
        servers.kill_nats()
        await heard.wait("broker.disconnected")
        with pytest.raises(Exception, match="outbound buffer"):
            await client.publish("elsewhere", b"x")
        servers.up()
        await heard.wait("broker.reconnected")
    assert states == ["connected", "disconnected", "reconnected"]
    assert (await client.request("$JS.API.INFO", timeout=HANG_S)).data
    await client.close()
    refused = [record for record in heard_log.records if "refused" in record.getMessage().lower()]
    assert len(refused) <= 1, "a server that stays away is told once"


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
async def test_a_connection_that_the_server_ends_is_made_again_on_each_event_loop(
    servers: Servers, heard_log: pytest.LogCaptureFixture, factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    states: list[str] = []

    async def story() -> None:
        async with gateway(servers.nats_url) as gate:
            settings = Nats(url=(Url(gate.url),))
            client = await connections.connect(settings, name="test", on_state=states.append)
            with listening() as heard:
                gate.cut()
                await heard.wait("broker.reconnected")
            assert (await client.request("$JS.API.INFO", timeout=HANG_S)).data
            await client.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(story())

    await asyncio.to_thread(run)
    assert states[:3] == ["connected", "disconnected", "reconnected"]
    assert "file descriptor" not in heard_log.text


async def test_a_connection_that_carries_nothing_any_more_is_given_up(servers: Servers) -> None:
    async with proxied(servers.nats_url) as proxy:
        client = await connections.connect(Nats(url=(Url(proxy.url),)), name="test", ping_s=0.1)
        with listening() as heard:
            proxy.cut()
            await heard.wait("broker.reconnected")
        assert (await client.request("$JS.API.INFO", timeout=HANG_S)).data
        await client.close()


async def test_attempts_to_come_back_that_nobody_answers_leave_nothing_open(servers: Servers) -> None:
    """Python warns of a connection that is forgotten while it is open, and a warning is an error here."""
    async with gateway(servers.nats_url) as gate:
        client = await connections.connect(Nats(url=(Url(gate.url),)), name="test")
        client.options |= {"connect_timeout": 0.2, "reconnect_time_wait": 0.05}
        gate.stall()
        with listening() as heard:
            gate.cut()
            before = gate.attempts
            await eventually(lambda: has_tried(gate, before + 3))
            gate.abandon()
            await heard.wait("broker.reconnected")
        assert (await client.request("$JS.API.INFO", timeout=HANG_S)).data
        await client.close()


async def test_a_subscription_that_has_ended_takes_nothing_any_more(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has read its end before we go on: what it sent to nobody would come again after the ack wait."""
    client = await connections.connect(Nats(url=(Url(servers.nats_url),)), name="test")
    assert isinstance(client, fast_client.Client)
    stop = await client.listen("some.inbox.*", Nothing())
    await client.flush()
    sent: list[bytes] = []
    transport: Any = client._transport
    for name in ("write", "writelines"):
        monkeypatch.setattr(transport, name, noting(sent, getattr(transport, name)))
    await stop()
    assert [line.split()[0] for line in sent] == [b"UNSUB", b"PING"]
    await client.close()


def noting(sent: list[bytes], write: Callable[[Any], None]) -> Callable[[Any], None]:
    def noted(data: bytes | list[bytes]) -> None:
        sent.extend([data] if isinstance(data, bytes) else data)
        write(data)

    return noted


class Nothing:
    """A sink of what never comes."""

    def begin(self) -> tuple[list[Arrival], float]:
        raise NotImplementedError

    def status(self, subject: str, head: bytes) -> None:
        raise NotImplementedError

    def end(self, size: int) -> None:
        raise NotImplementedError


async def has_tried(gate: Gateway, attempts: int) -> bool:
    return gate.attempts >= attempts


async def test_a_token_is_checked_and_never_shown(
    tmp_path: Path, heard_log: pytest.LogCaptureFixture
) -> None:
    with server(tmp_path, f'authorization {{ token: "{CANARY}" }}') as folder:
        url = (Url(await address(folder)),)
        client = await connections.connect(Nats(url=url, token=Secret(CANARY)), name="test")
        await client.close()
        for wrong in (Nats(url=url), Nats(url=url, token=Secret(f"not-{CANARY}"))):
            with pytest.raises(BrokerUnreachable, match="refuses these credentials") as raised:
                async with asyncio.timeout(HANG_S):
                    await connections.connect(wrong, name="test")
            assert CANARY not in str(raised.value)


async def test_a_creds_file_is_used(tmp_path: Path) -> None:
    """An operator signs an account, which signs a user: what `nsc` writes."""
    with server(tmp_path, signed_in(tmp_path)) as folder:
        settings = Nats(url=(Url(await address(folder)),), creds_file=str(tmp_path / "user.creds"))
        client = await connections.connect(settings, name="test")
        await client.flush()
        await client.close()
        with pytest.raises(BrokerUnreachable, match="refuses these credentials"):
            await connections.connect(Nats(url=settings.url), name="test", within_s=2)


async def test_an_nkey_file_is_used(tmp_path: Path) -> None:
    key = seed(1, nkeys.PREFIX_BYTE_USER)
    (tmp_path / "user.nk").write_bytes(key)
    with server(tmp_path, f'authorization {{ users = [{{ nkey: "{public(key)}" }}] }}') as folder:
        settings = Nats(url=(Url(await address(folder)),), nkey_file=str(tmp_path / "user.nk"))
        client = await connections.connect(settings, name="test")
        await client.flush()
        await client.close()


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> str:
        """The file of an authority, whose certificate for localhost lies beside it."""
        made = trustme.CA()
        made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        certificate = made.issue_cert("localhost")
        certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
        certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
        return str(tmp_path / "ca.pem")

    @pytest.fixture
    def guarded(self, tmp_path: Path, authority: str) -> Iterator[Path]:
        tls = f'tls {{ cert_file: "{tmp_path}/cert.pem", key_file: "{tmp_path}/key.pem" }}'
        with server(tmp_path, tls) as folder:
            yield folder

    async def by_name(self, folder: Path) -> Url:
        return Url((await address(folder)).replace("127.0.0.1", "localhost").replace("tls://", "nats://"))

    async def test_a_certificate_that_is_trusted_is_taken(self, guarded: Path, authority: str) -> None:
        settings = Nats(url=(await self.by_name(guarded),), tls="verify-full", ca_file=authority)
        client = await connections.connect(settings, name="test")
        await client.flush()
        await client.close()

    async def test_one_that_is_not_is_refused(self, guarded: Path) -> None:
        settings = Nats(url=(await self.by_name(guarded),), tls="verify-full")
        with pytest.raises(BrokerUnreachable, match="certificate verify failed"):
            async with asyncio.timeout(HANG_S):
                await connections.connect(settings, name="test")

    async def test_a_server_without_it_is_never_talked_to_in_the_clear(
        self, servers: Servers, authority: str
    ) -> None:
        settings = Nats(
            url=(Url(servers.nats_url),), tls="verify-full", ca_file=authority, token=Secret(CANARY)
        )
        with pytest.raises(BrokerUnreachable, match="does not offer TLS"):
            async with asyncio.timeout(HANG_S):
                await connections.connect(settings, name="test")

    async def test_the_plain_client_is_not_trusted_with_it(
        self, guarded: Path, authority: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fast_client, "available", lambda: "taken away for this test")
        settings = Nats(url=(await self.by_name(guarded),), tls="verify-full", ca_file=authority)
        with pytest.raises(BrokerUnreachable, match="taken away"):
            await connections.connect(settings, name="test")


async def test_an_answer_to_a_flush_that_was_given_up_ends_no_connection(servers: Servers) -> None:
    """nats-py sets the result of the cancelled future, and its read loop ends over that for good."""
    settings = Nats(url=(Url(servers.nats_url),))
    client = await connections.connect(settings, name="flusher")
    try:
        with servers.nats_stopped(), pytest.raises(FlushTimeoutError):
            await client.flush(1)
        await client.flush(int(HANG_S))
        await client.flush(int(HANG_S))
        assert client.is_connected
    finally:
        await client.close()
