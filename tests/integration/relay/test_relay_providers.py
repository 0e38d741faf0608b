"""The relay with the providers themselves: a server that misbehaves by script, a receiver, a stream, a mail server."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import pytest
import pytest_asyncio
import standardwebhooks
from nats.aio.client import Client
from tests.support import stub_provider as stubs
from tests.support.mail_server import DROP, mail_server
from tests.support.outbox import FAST, SLOW, Outbox
from tests.support.peers import patient
from tests.support.servers import Servers, Stream
from tests.support.stub_provider import Step, StubProvider, stub_provider
from tests.support.waiting import eventually

from projectionist.core.settings.settings import Settings, Telemetry
from projectionist.core.settings.sources import Layers, build
from projectionist.outbox.providers import (
    Http,
    NatsPublish,
    Outcome,
    Provider,
    ProviderContext,
    Reply,
    Request,
    Smtp,
    Webhook,
)

pytestmark = pytest.mark.asyncio

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


P = TypeVar("P", bound=Provider)


def provider(cls: type[P], name: str, site: ProviderContext | None = None, **section: Any) -> P:
    """A provider from its section of the settings, with fast retries."""
    settings = build(cls.Settings, section, ("providers", name), Layers(Settings, None, {}))
    if "retry" not in section:
        settings = msgspec.structs.replace(settings, retry=FAST)
    return cls(name, settings, site or ProviderContext(environ={"SECRET": SECRET}))


def payments(stub: StubProvider, profile: str = "stripe-v2", **section: Any) -> Http:
    given = {"timeout_s": 0.5, "private_hosts": ["127.0.0.1"], "profile": profile, **section}
    return provider(Http, "payments", url=stub.url(), **given)


HOSTILE = ["-1", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "soon", "1e9", "0"]

SCRIPTS: dict[str, tuple[stubs.Dialect, str, list[Step], str]] = {
    "executed, then nothing": (stubs.STRIPE, "stripe-v2", [stubs.execute_then_hang], "sent"),
    "executed, then torn": (stubs.STRIPE, "stripe-v2", [stubs.execute_then_reset], "sent"),
    "torn in the body": (stubs.STRIPE, "stripe-v2", [stubs.reset_mid_body], "sent"),
    "a body that drips": (stubs.STRIPE, "stripe-v2", [stubs.slow_body], "sent"),
    "an answer of 1 GB": (stubs.STRIPE, "stripe-v2", [stubs.gigabyte], "sent"),
    "500, then well": (stubs.STRIPE, "stripe-v2", [stubs.answer(500)], "sent"),
    "500 for ever": (stubs.STRIPE, "stripe-v1", [stubs.sticky_500], "reconcile"),
    "503": (stubs.STRIPE, "stripe-v1", [stubs.answer(503)], "sent"),
    "409, in flight": (stubs.RESEND, "resend", [stubs.answer(*stubs.RESEND.in_flight)], "sent"),
    "409, other content": (stubs.RESEND, "resend", [stubs.answer(*stubs.RESEND.mismatch)], "dead"),
    "422, other content": (stubs.IETF, "ietf-draft", [stubs.answer(*stubs.IETF.mismatch)], "dead"),
    "404": (stubs.STRIPE, "stripe-v2", [stubs.answer(404)], "dead"),
    "a redirect": (stubs.STRIPE, "stripe-v2", [stubs.redirect("http://169.254.169.254/")], "dead"),
    "no profile, no answer": (stubs.STRIPE, "none", [stubs.execute_then_hang], "reconcile"),
    **{
        f"429, {value}": (stubs.STRIPE, "stripe-v2", [stubs.answer(429, None, retry_after=value)], "sent")
        for value in HOSTILE
    },
}


@pytest.mark.parametrize("script", SCRIPTS)
async def test_whatever_the_provider_does_a_key_is_executed_at_most_once(
    harness: Outbox, script: str
) -> None:
    dialect, profile, steps, state = SCRIPTS[script]
    more: dict[str, Any] = {"memory_s": 3600.0} if profile == "ietf-draft" else {}
    key = await harness.want("payments", body={"amount": 100})
    async with stub_provider(dialect) as stub:
        stub.plan(*steps)
        async with harness.relaying(payments(stub, profile, **more)):
            await harness.becomes(key, state)
            other = await harness.want("payments", body={"amount": 100})
            await harness.becomes(other, "sent")
        volatile = Http.profile.volatile
        assert len(set(stubs.frozen([seen for seen in stub.seen if seen.key == key], volatile))) <= 1
    assert all(n == 1 for n in stub.executions.values()), stub.executions
    if state == "sent":
        assert stub.executions[key] == 1


async def test_a_trace_that_no_header_takes_is_left_out_and_the_intent_is_sent(harness: Outbox) -> None:
    tails = ("\n", "\nX-Evil: 1", "\x1f", "é", "x" * 200_000)
    keys = [await harness.want("payments", body={"amount": 100}) for _ in tails]
    for key, tail in zip(keys, tails, strict=True):
        await harness.connection.execute(
            "update projectionist.intents set traceparent = $1, tracestate = 'a=b' where key = $2",
            *(f"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-{tail}", key),
        )
    async with stub_provider() as stub:
        async with harness.relaying(payments(stub, "none")):
            for key in keys:
                await harness.becomes(key, "sent")
        assert not [seen for seen in stub.seen if {"traceparent", "tracestate", "x-evil"} & set(seen.headers)]
    assert len(stub.seen) == len(keys), "each at its first attempt"
    assert await harness.connection.fetch("select from projectionist.circuits where state <> 'closed'") == []


@pytest.mark.parametrize(
    ("allowed", "arrives"),
    [(("tenant", "plan"), "tenant=a%20b,plan=gold"), (("tenant",), "tenant=a%20b"), ((), None)],
)
async def test_a_call_bears_the_members_of_its_baggage_that_are_allowed_by_then(
    harness: Outbox, allowed: tuple[str, ...], arrives: str | None
) -> None:
    key = await harness.want("payments")
    await harness.connection.execute("update projectionist.intents set baggage = 'tenant=a%20b,plan=gold'")
    harness.settings = msgspec.structs.replace(harness.settings, telemetry=Telemetry(baggage=allowed))
    async with stub_provider() as stub, harness.relaying(payments(stub)):
        await harness.becomes(key, "sent")
    assert [seen.headers.get("baggage") for seen in stub.seen] == [arrives]


async def test_a_webhook_is_verified_by_its_receiver_and_a_closed_one_is_left_alone(harness: Outbox) -> None:
    key = await harness.want("hooks", body={"order_id": "o-1"}, lane="order/1")
    async with stub_provider() as stub:
        stub.plan(stubs.answer(500), stubs.execute, stubs.answer(410))
        hooks = provider(
            Webhook, "hooks", url=stub.url(), secrets=[{"env": "SECRET"}], private_hosts=["127.0.0.1"]
        )
        async with harness.relaying(hooks):
            await harness.becomes(key, "sent")
            gone = await harness.want("hooks", lane="order/2")
            await harness.becomes(gone, "held")
            held = "select held from projectionist.circuits where provider = 'hooks'"
            await eventually(lambda: harness.connection.fetchval(held))
            await harness.want("hooks", lane="order/3")
    failed, verified, refused = stub.seen
    receiver = standardwebhooks.Webhook(SECRET)
    assert receiver.verify(verified.body, verified.headers) == {"order_id": "o-1"}
    assert failed.headers["webhook-id"] == verified.headers["webhook-id"] == key
    assert failed.body == verified.body
    assert refused.headers["webhook-id"] == gone


async def test_a_webhook_that_is_not_set_up_waits_until_it_is(harness: Outbox) -> None:
    key = await harness.want("hooks", destination="acme")
    async with stub_provider() as stub:
        common: dict[str, Any] = {"private_hosts": ["127.0.0.1"]}
        async with harness.relaying(provider(Webhook, "hooks", **common)):
            row = await harness.becomes(key, "held")
        assert (row["error"], row["spent"]) == ("the destination 'acme' is not set up", 0)
        acme = {"acme": {"url": stub.url(), "secrets": [{"env": "SECRET"}]}}
        async with harness.relaying(provider(Webhook, "hooks", destinations=acme, **common)):
            await harness.becomes(key, "sent")


@pytest_asyncio.fixture
async def client(servers: Servers) -> AsyncIterator[Client]:
    client = await patient(servers.nats_url, pending_size=0)
    yield client
    await client.close()


@asynccontextmanager
async def events(
    client: Client, stream: Stream, cls: type[NatsPublish] = NatsPublish
) -> AsyncIterator[NatsPublish]:
    async def given() -> Client:
        return client

    publish = provider(
        cls,
        "events",
        ProviderContext(nats=given),
        subject=stream.subject("{order_id}"),
        retry=msgspec.to_builtins(SLOW),
    )
    await publish.open()
    yield publish


async def test_derived_events_are_published_once_and_their_ack_is_kept(
    harness: Outbox, client: Client, stream: Stream
) -> None:
    keys = [await harness.want("events", body={"order_id": f"o-{n}"}, lane=f"order/{n}") for n in range(50)]
    async with events(client, stream) as publish, harness.relaying(publish):
        await harness.all_become("sent")
    info = await client.jetstream().stream_info(stream.name)
    assert info.state.messages == len(keys)
    assert {(await harness.row(key))["provider_id"] for key in keys} == {
        f"{stream.name}:{n + 1}" for n in range(50)
    }


async def test_past_the_streams_memory_a_lookup_finds_what_was_stored(
    harness: Outbox, client: Client, stream: Stream
) -> None:
    """The acks are lost; two minutes later the relay reads the stream instead of publishing again."""

    class Deaf(NatsPublish):
        lost = 0

        async def send(self, request: Request) -> Reply:
            if self.lost < 2:
                self.lost += 1
                if request.fields()["order_id"] == "stored":
                    await super().send(request)
                return Reply(outcome=Outcome.UNKNOWN, reason="no ack")
            return await super().send(request)

    stored = await harness.want("events", body={"order_id": "stored"}, lane="order/1")
    absent = await harness.want("events", body={"order_id": "absent"}, lane="order/2")
    async with events(client, stream, Deaf) as publish, harness.relaying(publish) as relay:
        for key in (stored, absent):
            await eventually(attempts_of(harness, key))
            await harness.age(key, 0.8 * 120)
        await harness.make_due()
        relay.wake()
        await harness.all_become("sent")
    assert (await client.jetstream().stream_info(stream.name)).state.messages == 2
    assert [(await harness.row(key))["attempt"] for key in (stored, absent)] == [1, 2]
    assert (await harness.row(stored))["error"] == "found by lookup"


async def test_a_crash_after_a_mail_is_handed_over_is_left_to_a_person_and_before_it_not(
    harness: Outbox,
) -> None:
    body = {"to": "ada@example.org", "subject": "Your order", "text": "Thank you."}
    async with mail_server(tls="none") as server:
        server.answers = {"MAIL": ["451 later"], "DATA": [DROP]}
        email = provider(
            Smtp, "email", host="127.0.0.1", port=server.port, tls="none", sender="shop@example.org"
        )
        async with harness.relaying(email):
            unclear = await harness.want("email", body=body)
            row = await harness.becomes(unclear, "reconcile")
            clear = await harness.want("email", body=body)
            await harness.becomes(clear, "sent")
        assert [a["outcome"] for a in await harness.attempts(unclear)] == ["retry", "unknown"]
        assert "after the message was handed over" in row["error"]
        assert [len(server.mails(key)) for key in (unclear, clear)] == [1, 1]


def attempts_of(harness: Outbox, key: str) -> Callable[[], Any]:
    return lambda: harness.attempts(key)
