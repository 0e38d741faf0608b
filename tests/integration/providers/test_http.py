"""HTTP calls against a real server that misbehaves: the reply is true, and a key is executed once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.support import stub_provider as stubs
from tests.support.http_calls import BODY, a_request, http, rendered, resolver, sent, settings_of
from tests.support.stub_provider import stub_provider, tls_stub
from tests.support.waiting import HANG_S, HEARD_S

from projectionist.core.errors import SettingsError
from projectionist.core.settings.settings import Settings
from projectionist.core.settings.sources import Layers, build
from projectionist.outbox.providers import Http, Outcome, ProviderContext, Reply, Request
from projectionist.outbox.providers.http import HttpSettings
from projectionist.outbox.providers.runtime import attempt, prepare

pytestmark = pytest.mark.asyncio


async def test_a_call_carries_key_body_and_secrets_and_the_reply_the_providers_id() -> None:
    site = ProviderContext(environ={"PAY_KEY": "sk_live_canary"})
    async with (
        stub_provider() as stub,
        http(
            stub.url("/orders/{order_id}/charges?x={amount}"),
            site,
            profile="stripe-v2",
            bearer={"env": "PAY_KEY"},
            headers={"Stripe-Version": "2026-01-01"},
        ) as pay,
    ):
        reply = await sent(pay, traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    (seen,) = stub.seen
    assert (seen.method, seen.target, seen.body) == ("POST", "/orders/o-1/charges?x=100", BODY)
    assert seen.headers["idempotency-key"] == "k1"
    assert seen.headers["authorization"] == "Bearer sk_live_canary"
    assert seen.headers["stripe-version"] == "2026-01-01"
    assert seen.headers["traceparent"].startswith("00-aaaa")
    assert seen.headers["host"] == f"127.0.0.1:{stub.port}"
    assert (reply.outcome, reply.provider_id, reply.status) == (Outcome.SENT, "ch_1", "200")
    assert reply.took_s > 0


async def test_a_form_is_what_stripe_v1_takes() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v1") as pay:
        await sent(pay)
    assert stub.seen[0].headers["content-type"] == "application/x-www-form-urlencoded"
    assert stub.seen[0].body == (
        b"amount=100&lines%5B0%5D%5Bprice%5D=p_1&lines%5B0%5D%5Bqty%5D=2&order_id=o-1&paid=true"
    )


async def test_the_draft_wants_its_key_in_quotes_and_a_memory_from_the_user() -> None:
    async with (
        stub_provider(stubs.IETF) as stub,
        http(stub.url(), profile="ietf-draft", memory_s=3600) as pay,
    ):
        await sent(pay)
    assert stub.seen[0].headers["idempotency-key"] == '"k1"'
    with pytest.raises(SettingsError, match="Set memory_s"):
        Http("pay", settings_of("https://pay.test/", profile="ietf-draft"), ProviderContext())


async def test_executed_and_then_timed_out_is_unknown_and_the_same_key_finds_out() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v1") as pay:
        stub.plan(stubs.execute_then_hang)
        assert (await sent(pay, timeout_s=HEARD_S)).outcome is Outcome.UNKNOWN
        again = await sent(pay)
    assert (again.outcome, again.replayed, stub.executions["k1"]) == (Outcome.SENT, True, 1)


async def test_a_connection_torn_after_execution_is_unknown() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v1") as pay:
        stub.plan(stubs.execute_then_reset)
        assert (await sent(pay)).outcome is Outcome.UNKNOWN
    assert stub.executions["k1"] == 1


@pytest.mark.parametrize(
    ("dialect", "profile"),
    [(stubs.STRIPE, "stripe-v2"), (stubs.RESEND, "resend"), (stubs.IETF, "ietf-draft")],
)
async def test_in_flight_and_mismatch_are_told_apart_in_every_dialect(
    dialect: stubs.Dialect, profile: str
) -> None:
    async with stub_provider(dialect) as stub, http(stub.url(), profile=profile, memory_s=3600) as pay:
        stub.plan(stubs.in_flight(stub))
        busy = await sent(pay)
        assert (busy.outcome, busy.after_s) == (Outcome.IN_FLIGHT, pay.profile.lock_s)
        assert (await sent(pay)).outcome is Outcome.SENT
        assert (await sent(pay, body=b'{"order_id":"o-2"}')).outcome is Outcome.MISMATCH
    assert stub.executions["k1"] == 1


async def test_two_attempts_at_once_execute_once() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v2") as pay:
        request = rendered(pay)
        replies = await asyncio.gather(*(attempt(pay, request) for _ in range(20)))
    assert {reply.outcome for reply in replies} <= {Outcome.SENT, Outcome.IN_FLIGHT}
    assert stub.executions["k1"] == 1


async def test_a_sticky_500_is_repeated_by_the_provider_and_told_as_sticky() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v1") as pay:
        stub.plan(stubs.sticky_500)
        assert (await sent(pay)).outcome is Outcome.STICKY
        assert (await sent(pay)).outcome is Outcome.STICKY
    assert stub.executions["k1"] == 1


async def test_a_500_that_heals_is_unknown_and_then_sent() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v2") as pay:
        stub.plan(stubs.answer(500))
        assert [(await sent(pay)).outcome for _ in range(2)] == [Outcome.UNKNOWN, Outcome.SENT]


@pytest.mark.parametrize(
    ("asked", "after"),
    [("7", 7.0), ("99999999999999999999", 31_536_000.0), ("-1", None), ("soon", None), ("9" * 5000, None)],
)
async def test_a_hostile_retry_after_is_bounded(asked: str, after: float | None) -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v2") as pay:
        stub.plan(stubs.answer(429, None, retry_after=asked))
        reply = await sent(pay)
    assert (reply.outcome, reply.after_s) == (Outcome.RETRY, after)


async def test_a_status_the_user_calls_final_is_refused() -> None:
    async with (
        stub_provider() as stub,
        http(stub.url(), profile="stripe-v2", retry={"non_retryable": ["503"]}) as pay,
    ):
        stub.plan(stubs.answer(503))
        assert (await sent(pay)).outcome is Outcome.REFUSED


async def test_a_body_that_drips_does_not_outlast_the_deadline_nor_hide_the_answer() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v2") as pay:
        stub.plan(stubs.slow_body)
        reply = await sent(pay, timeout_s=HEARD_S)
    assert (reply.outcome, reply.reason) == (Outcome.SENT, "the answer was cut")
    assert reply.took_s < HANG_S


async def test_of_a_gigabyte_only_the_beginning_is_received() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v2") as pay:
        stub.plan(stubs.gigabyte)
        reply = await sent(pay)
    assert reply.outcome is Outcome.SENT
    assert len(reply.excerpt) <= 2000
    assert stub.written < 64 << 20  # what the sockets buffer, not what was announced


async def test_a_reset_in_the_middle_of_the_body_keeps_the_answer_the_status_gave() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v2") as pay:
        stub.plan(stubs.reset_mid_body)
        reply = await sent(pay)
    assert (reply.outcome, reply.reason) == (Outcome.SENT, "the answer was cut")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("X-Order", "a\r\nX-Evil: 1", "the value of the header X-Order holds characters that no header may"),
        ("X-Order", "Zoë", "the value of the header X-Order holds"),
        ("X Order", "1", "'X Order' cannot be the name of a header"),
        ("Zoë", "1", "'Zo\\xeb' cannot be the name of a header"),
        ("Content-Length", "7", "the request is not valid HTTP"),
    ],
)
async def test_a_call_that_can_never_be_made_is_refused_and_its_text_names_the_header(
    name: str, value: str, words: str
) -> None:
    class Own(Http):
        def render(self, request: Request) -> bytes:
            wire = msgspec.json.decode(super().render(request))
            return msgspec.json.encode(wire | {"headers": [[name, value]]})

    async with stub_provider() as stub:
        pay = Own("pay", settings_of(stub.url()), ProviderContext())
        reply = await sent(pay)
        await pay.close()
    assert reply.outcome is Outcome.REFUSED
    assert words in reply.reason
    assert stub.seen == []


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (b"{}", "another kind of provider"),
        (b'{"method":"POST","url":"https://u:p@pay.test/","headers":[],"body":""}', "user name"),
        (b'{"method":"POST","url":"https://elsewhere.test/","headers":[],"body":""}', "is not allowed"),
        (b'{"method":"PO ST","url":"https://pay.test/","headers":[],"body":""}', "not valid HTTP"),
    ],
)
async def test_frozen_bytes_that_no_longer_fit_are_refused_before_anything_leaves(
    wire: bytes, words: str
) -> None:
    async with tls_stub("pay.test") as (stub, ca_file):
        url = stub.url(host="pay.test")
        wire = wire.replace(b"https://pay.test/", url.encode())
        async with http(url, resolver({"pay.test": ["127.0.0.1"]}), ca_file=ca_file) as pay:
            reply = await attempt(pay, a_request(wire=wire))
    assert reply.outcome is Outcome.REFUSED
    assert words in reply.reason
    assert stub.seen == []


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("order_id", "../admin", None),
        ("order_id", "..", "only dots"),
        ("order_id", "", "only dots"),
        ("order_id", None, "not a plain value"),
    ],
)
async def test_a_field_of_the_url_cannot_name_another_resource(
    field: str, value: str | None, words: str | None
) -> None:
    async with stub_provider() as stub, http(stub.url("/orders/{order_id}")) as pay:
        result = prepare(pay, a_request(body=msgspec.json.encode({field: value})))
        if words is None:
            assert isinstance(result, bytes)
            assert b"/orders/..%2Fadmin" in result
        else:
            assert isinstance(result, Reply)
            assert (result.outcome, words in result.reason) == (Outcome.REFUSED, True)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"url": "https://{host}/x"}, "written out"),
        ({"url": "https://pay.test:{port}/"}, "url"),
        ({"url": "https://pay.test/{a.b}"}, "not a field"),
        ({"url": "http://example.com/"}, "without TLS"),
        ({"url": "https://u:hunter2@pay.test/"}, "user name"),
        ({"url": "https://pay.test/", "headers": {"Host": "x"}}, "can be set"),
        ({"url": "https://pay.test/", "headers": {"X": "a\r\nB: c"}}, "no header may"),
        (
            {"url": "https://pay.test/", "headers": {"Authorization": "hunter2"}},
            "use bearer or secret_headers",
        ),
        ({"url": "https://pay.test/", "profil": "none"}, "Did you mean 'profile'"),
        ({"url": "https://pay.test/", "profile": "stripe"}, "stripe-v1"),
        ({"url": "https://pay.test/", "bearer": "hunter2"}, "section of keys"),
        ({"url": "https://pay.test/", "bearer": {"env": "A", "file": "B"}}, "one of the two"),
        ({"url": "https://pay.test/", "bearer": {"env": "NOT_SET"}}, "NOT_SET holds no secret"),
        ({"url": "https://pay.test/", "bearer": {"file": "/nowhere/hunter"}}, "cannot be read"),
        ({"url": "https://pay.test/", "bearer": {"env": "BROKEN"}}, "no header may"),
        ({"url": "https://pay.test/", "concurrency": 0}, "1 or more"),
        ({"url": "https://pay.test/", "timeout_s": "long"}, "seconds"),
        ({}, "url is not set"),
    ],
)
async def test_wrong_settings_are_told_and_show_no_secret(section: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Http(
            "pay",
            build(HttpSettings, section, ("providers", "pay"), Layers(Settings, None, {})),
            ProviderContext(environ={"BROKEN": "hunter2\n"}),
        )
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_no_secret_is_in_the_wire_bytes_the_reply_or_a_repr() -> None:
    site = ProviderContext(environ={"PAY_KEY": "sk_live_canary"})
    async with (
        stub_provider() as stub,
        http(
            stub.url(), site, bearer={"env": "PAY_KEY"}, secret_headers={"X-Api-Key": {"env": "PAY_KEY"}}
        ) as pay,
    ):
        stub.plan(stubs.answer(403, {"message": "bad key sk_live_canary"}))
        request = rendered(pay)
        reply = await attempt(pay, request)
        shown = f"{request!r} {reply!r} {vars(pay)!r} {pay.settings!r}"
    assert "***" in reply.excerpt
    assert "sk_live_canary" not in shown
    assert stub.seen[0].headers["x-api-key"] == "sk_live_canary"
