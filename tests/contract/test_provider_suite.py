"""The contract of providers, run on each of ours, and on the smallest one a user could write."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nats.aio.client import Client
from tests.support import stub_provider as stubs
from tests.support.mail_server import HANG, MailServer, mail_server
from tests.support.peers import patient
from tests.support.servers import Servers, Stream
from tests.support.stub_provider import StubProvider, stub_provider

from projectionist.core.errors import ProjectionistError, SettingsError
from projectionist.core.settings.settings import Settings
from projectionist.core.settings.sources import Layers, build
from projectionist.outbox import providers
from projectionist.outbox.providers import (
    Http,
    NatsPublish,
    Outcome,
    Profile,
    Provider,
    ProviderContext,
    ProviderSettings,
    Reply,
    Request,
    Smtp,
    Webhook,
)
from projectionist.outbox.providers.profiles import STRIPE_V2
from projectionist.outbox.providers.runtime import attempt, prepare, running
from projectionist.testing.providers import ProviderContract, World

SECRET = "whsec_" + "A" * 44
SITE = ProviderContext(environ={"SECRET": SECRET})


def made(factory: type[Provider], site: ProviderContext = SITE, **section: Any) -> Provider:
    settings = build(factory.Settings, section, ("providers", "p"), Layers(Settings, None, {}))
    return factory("p", settings, site)


class StubWorld(World):
    """Behind HTTP: the stub, which can do everything."""

    def __init__(self, provider: Provider, stub: StubProvider) -> None:
        self.provider, self.stub = provider, stub

    async def executions(self, key: str) -> int:
        return self.stub.executions[key]

    async def frozen_parts(self, key: str) -> list[bytes]:
        seen = [seen for seen in self.stub.seen if seen.key == key]
        return stubs.frozen(seen, self.provider.profile.volatile)

    async def lose_the_next_answer(self) -> None:
        self.stub.plan(stubs.execute_then_hang)

    async def refuse_the_next(self) -> None:
        self.stub.plan(stubs.answer(403))

    async def go_away(self) -> None:
        self.stub.stop()


class TestHttp(ProviderContract):
    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        async with stub_provider() as stub:
            provider = made(Http, url=stub.url(), profile="stripe-v2", private_hosts=["127.0.0.1"])
            yield StubWorld(provider, stub)
            await provider.close()


class TestWebhook(ProviderContract):
    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        async with stub_provider() as stub:
            provider = made(Webhook, url=stub.url(), secrets=[{"env": "SECRET"}], private_hosts=["127.0.0.1"])
            yield _WebhookWorld(provider, stub)
            await provider.close()


class _WebhookWorld(StubWorld):
    async def refuse_the_next(self) -> None:
        # For a webhook nothing but "gone" is final.
        self.stub.plan(stubs.answer(410))


class _MailWorld(World):
    body = b'{"order_id":"o-1","to":"a@example.org"}'

    def __init__(self, provider: Provider, server: MailServer) -> None:
        self.provider, self.server = provider, server

    async def executions(self, key: str) -> int:
        return len(self.server.mails(key))

    async def frozen_parts(self, key: str) -> list[bytes]:
        return [mail.as_bytes() for mail in self.server.mails(key)]

    async def lose_the_next_answer(self) -> None:
        self.server.answers["DATA"] = [HANG]

    async def refuse_the_next(self) -> None:
        self.server.answers["RCPT"] = ["550 5.1.1 no such user"]

    async def go_away(self) -> None:
        self.server.stop()


class TestSmtp(ProviderContract):
    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        async with mail_server() as server:
            provider = made(
                Smtp,
                host="127.0.0.1",
                port=server.port,
                sender="shop@example.com",
                ca_file=server.ca_file,
            )
            yield _MailWorld(provider, server)
            await provider.close()


class _StreamWorld(World):
    def __init__(self, provider: Provider, client: Client, stream: str) -> None:
        self.provider, self._client, self._stream = provider, client, stream

    async def executions(self, key: str) -> int:
        manager = self._client.jetstream()
        last = (await manager.stream_info(self._stream)).state.last_seq
        messages = [await manager.get_msg(self._stream, seq) for seq in range(1, last + 1)]
        return sum((message.headers or {}).get("Nats-Msg-Id") == key for message in messages)

    async def go_away(self) -> None:
        await self._client.close()


class TestNatsPublish(ProviderContract):
    @pytest.fixture(autouse=True)
    def _stream_of_this_test(self, servers: Servers, stream: Stream) -> None:
        self.url, self.stream = servers.nats_url, stream

    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        client = await patient(self.url, pending_size=0)

        async def given() -> Client:
            return client

        provider = made(NatsPublish, ProviderContext(nats=given), subject=self.stream.subject("{order_id}"))
        await provider.open()
        try:
            yield _StreamWorld(provider, client, self.stream.name)
        finally:
            await provider.close()
            await client.close()


class Ledger:
    """The smallest outside there is."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}


class Own(Provider):
    """A user's provider: one method, and what is known of the other side."""

    profile: Profile = STRIPE_V2
    ledger: Ledger

    async def send(self, request: Request) -> Reply:
        if request.too_late():
            return Reply(outcome=Outcome.NOT_SENT)
        self.ledger.done.setdefault(request.key, 1)
        return Reply(outcome=Outcome.SENT)


class _OwnWorld(World):
    def __init__(self, provider: Own) -> None:
        self.provider = provider

    async def executions(self, key: str) -> int:
        assert isinstance(self.provider, Own)
        return self.provider.ledger.done.get(key, 0)


class TestOwn(ProviderContract):
    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        provider = Own("own", ProviderSettings(), ProviderContext())
        provider.ledger = Ledger()
        yield _OwnWorld(provider)


class _Careless(Own):
    async def send(self, request: Request) -> Reply:
        self.ledger.done[request.key] = self.ledger.done.get(request.key, 0) + 1
        return Reply(outcome=Outcome.SENT)


class _CarelessContract(ProviderContract):
    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        provider = _Careless("own", ProviderSettings(), ProviderContext())
        provider.ledger = Ledger()
        yield _OwnWorld(provider)


@pytest.mark.parametrize(
    "rule",
    [
        "test_a_repeat_of_a_remembered_key_is_not_executed_again",
        "test_nothing_leaves_once_the_lease_may_be_over",
    ],
)
def test_the_suite_catches_a_provider_that_is_careless(rule: str) -> None:
    with pytest.raises(AssertionError):
        getattr(_CarelessContract(), rule)()


def test_what_a_provider_raises_is_unknown_and_its_text_is_not_told() -> None:
    class Broken(Own):
        async def send(self, request: Request) -> Reply:
            raise RuntimeError(request.body.decode())

    provider = Broken("own", ProviderSettings(), ProviderContext())
    request = Request(key="k", provider="own", destination="own", intent="I", body=b"canary")
    reply = asyncio.run(attempt(provider, request))
    assert (reply.outcome, reply.reason) == (Outcome.UNKNOWN, "the provider raised RuntimeError")


def test_a_provider_that_never_returns_is_cut_off() -> None:
    class Endless(Own):
        async def send(self, request: Request) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

    provider = Endless("own", ProviderSettings(), ProviderContext())
    request = Request(key="k", provider="own", destination="own", intent="I", body=b"{}", timeout_s=0.01)
    assert asyncio.run(attempt(provider, request)).outcome is Outcome.UNKNOWN


def test_a_provider_that_cannot_render_refuses_that_intent_only() -> None:
    class Broken(Own):
        def render(self, request: Request) -> bytes:
            raise KeyError(request.body.decode())

    request = Request(key="k", provider="own", destination="own", intent="I", body=b"canary")
    reply = prepare(Broken("own", ProviderSettings(), ProviderContext()), request)
    assert isinstance(reply, Reply)
    assert (reply.outcome, reply.reason) == (Outcome.REFUSED, "rendering raised KeyError")


def test_providers_of_an_app_are_built_opened_and_closed() -> None:
    happened: list[str] = []

    class Noted(Own):
        async def open(self) -> None:
            happened.append(f"open {self.name}")

        async def close(self) -> None:
            happened.append(f"close {self.name}")

    async def run(settings: Settings) -> None:
        async with running({"a": Noted, "b": Noted}, settings, ProviderContext()) as providers:
            happened.append(f"concurrency {providers['b'].settings.concurrency}")

    def settings_of(**section: Any) -> Settings:
        tree = {"providers": {"b": section}}
        return build(Settings, tree, (), Layers(Settings, None, {}))

    asyncio.run(run(settings_of(concurrency=3)))
    assert happened == ["open a", "open b", "concurrency 3", "close b", "close a"]
    with pytest.raises(SettingsError, match="Did you mean 'concurrency'"):
        asyncio.run(run(settings_of(concurency=3)))
    with pytest.raises(SettingsError, match="schedule_to_close_s"):
        asyncio.run(run(settings_of(retry={"schedule_to_close_s": 30 * 86400})))


def test_a_provider_whose_library_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("aiosmtplib", "projectionist.outbox.providers.smtp"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "projectionist.outbox.providers.smtp")
    with pytest.raises(ProjectionistError, match=r"pip install 'projectionist\[smtp\]'"):
        _ = providers.Smtp
    with pytest.raises(AttributeError, match="no attribute 'Pigeon'"):
        _ = providers.Pigeon  # type: ignore[attr-defined] # the point
