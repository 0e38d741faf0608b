"""Connections of a provider over HTTP: to checked addresses and names alone, kept where a repeat is recognised."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network
from typing import Any

import httpcore
import pytest
from tests.support import stub_provider as stubs
from tests.support.http_calls import BODY, a_request, http, resolver, sent
from tests.support.stub_provider import stub_provider, tls_stub

from projectionist.core import clock
from projectionist.outbox.providers import Outcome, ProviderContext
from projectionist.outbox.providers.egress import Egress
from projectionist.outbox.providers.host_names import Names
from projectionist.outbox.providers.http_exchange import Transport
from projectionist.outbox.providers.http_outcomes import HttpAnswer

pytestmark = pytest.mark.asyncio


async def test_a_redirect_to_a_private_address_is_not_followed() -> None:
    async with stub_provider() as inner, stub_provider() as stub, http(stub.url()) as pay:
        stub.plan(stubs.redirect(inner.url("/metadata")))
        assert (await sent(pay)).outcome is Outcome.REFUSED
    assert inner.seen == []


async def test_a_name_that_flips_to_a_private_address_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    # Loopback stands for a public address here, so that the first attempt can get through.
    only_private = [(ip_network("10.0.0.0/8"), "private")]
    monkeypatch.setattr("projectionist.outbox.providers.address_ranges._RANGES", only_private)
    site = resolver({"flips.test": ["127.0.0.1", "10.0.0.1"]})
    async with (
        tls_stub("flips.test") as (stub, ca_file),
        http(stub.url(host="flips.test"), site, ca_file=ca_file) as pay,
    ):
        first, second = await sent(pay), await sent(pay)
    assert first.outcome is Outcome.SENT
    assert (second.outcome, "private" in second.reason) == (Outcome.RETRY, True)
    assert stub.connections == 1


async def test_nobody_there_and_no_such_name_are_certainly_not_sent() -> None:
    async with stub_provider() as stub:
        pass
    async with http(stub.url()) as pay:
        reply = await sent(pay)
        assert (reply.outcome, reply.reason) == (Outcome.NOT_SENT, "could not connect")
    async with http("https://no-such-name.invalid/") as pay:
        reply = await sent(pay)
        assert (reply.outcome, reply.reason) == (Outcome.NOT_SENT, "the name was not found")


async def test_a_lease_that_ends_while_connecting_lets_no_byte_out() -> None:
    async with stub_provider() as stub:

        async def slowly(_host: str, _port: int) -> list[str]:
            await asyncio.sleep(0.2)
            return ["127.0.0.1"]

        async with http(f"http://pay.test:{stub.port}/", ProviderContext(resolve=slowly)) as pay:
            reply = await sent(pay, not_after=clock.now() + 0.1)
    assert reply.outcome is Outcome.NOT_SENT
    assert stub.seen == []


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (TypeError("canary"), Outcome.REFUSED),
        (httpcore.WriteTimeout("canary"), Outcome.NOT_SENT),
        (OSError("canary"), Outcome.NOT_SENT),
    ],
)
async def test_what_breaks_before_the_first_byte_is_not_unknown(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, outcome: Outcome
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr("httpcore.AsyncHTTP11Connection._send_request_headers", broken)
    async with stub_provider() as stub, http(stub.url()) as pay:
        reply = await sent(pay)
    assert (reply.outcome, "canary" in reply.reason) == (outcome, False)
    assert stub.seen == []


async def test_tls_is_verified_by_name_although_the_address_is_pinned() -> None:
    site = resolver({"pay.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]})
    private = ["pay.test", "other.test"]
    async with tls_stub("pay.test") as (stub, ca_file):
        async with http(stub.url(host="pay.test"), site, ca_file=ca_file, private_hosts=private) as pay:
            assert (await sent(pay)).outcome is Outcome.SENT
        async with http(stub.url(host="other.test"), site, ca_file=ca_file, private_hosts=private) as pay:
            reply = await sent(pay)
            assert (reply.outcome, reply.reason) == (Outcome.NOT_SENT, "TLS could not be established")
        async with http(stub.url(host="pay.test"), site, private_hosts=private) as pay:
            assert (await sent(pay)).outcome is Outcome.NOT_SENT
    assert len(stub.seen) == 1


async def test_connections_are_pooled_only_where_a_repeat_is_recognised() -> None:
    async with stub_provider() as stub:
        for profile, connections in (("stripe-v2", 1), ("none", 3)):
            before = stub.connections
            async with http(stub.url(), profile=profile) as pay:
                for number in range(3):
                    assert (await sent(pay, key=f"{profile}-{number}")).outcome is Outcome.SENT
            assert stub.connections - before == connections


async def test_many_at_once_have_a_connection_each_and_leave_it_to_the_next() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v2") as pay:
        for wave in range(3):
            replies = await asyncio.gather(*(sent(pay, key=f"{wave}-{number}") for number in range(50)))
            assert {reply.outcome for reply in replies} == {Outcome.SENT}
        assert stub.connections == 50
        assert set(stub.executions.values()) == {1}


async def test_a_connection_that_was_idle_for_long_is_not_used() -> None:
    egress = Egress(hosts=None, private_hosts=("127.0.0.1",), resolve=Names())
    async with stub_provider() as stub:
        for idle_s, connections in ((60.0, 1), (0.0, 3)):
            transport, before = Transport(egress, keep=True, idle_s=idle_s), stub.connections
            for number in range(3):
                request = a_request(key=f"{idle_s}-{number}")
                answer = await transport.exchange("POST", stub.url(), [], BODY, request)
                assert isinstance(answer, HttpAnswer), answer
            await transport.close()
            assert stub.connections - before == connections


async def test_an_idle_connection_that_the_server_closed_is_not_used() -> None:
    async with stub_provider() as stub, http(stub.url(), profile="stripe-v2") as pay:
        stub.plan(stubs.execute_and_close)
        assert (await sent(pay)).outcome is Outcome.SENT
        await stub.idle.wait()
        assert (await sent(pay, key="k2")).outcome is Outcome.SENT
