"""Webhooks as a receiver sees them: verified by the receivers' own package, at checked addresses."""

from __future__ import annotations

import base64
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import msgspec
import pytest
import standardwebhooks
from tests.support import stub_provider as stubs
from tests.support.process import run_projectionist
from tests.support.stub_provider import Seen, stub_provider, tls_stub

from projectionist.core.errors import SettingsError
from projectionist.core.settings.settings import Settings
from projectionist.core.settings.sources import Layers, build
from projectionist.outbox.providers import Outcome, ProviderContext, Reply, Request, Webhook
from projectionist.outbox.providers.runtime import attempt, prepare
from projectionist.outbox.providers.webhook import WebhookSettings
from projectionist.outbox.providers.webhook_signer import Signer

pytestmark = pytest.mark.asyncio
OLD = "whsec_" + base64.b64encode(b"o" * 32).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
ENVIRON = {"OLD": OLD, "NEW": NEW, "SHORT": "whsec_c2hvcnQ=", "PLAIN": "hunter2"}
BODY = '{"name":"Zoë","order_id":"o-1"}'.encode()


def settings_of(**section: Any) -> WebhookSettings:
    whole = {"private_hosts": ["127.0.0.1"], **section}
    return build(WebhookSettings, whole, ("providers", "hooks"), Layers(Settings, None, {}))


@asynccontextmanager
async def webhook(site: ProviderContext | None = None, **section: Any) -> AsyncIterator[Webhook]:
    provider = Webhook("hooks", settings_of(**section), site or ProviderContext(environ=ENVIRON))
    try:
        yield provider
    finally:
        await provider.close()


async def sent(provider: Webhook, destination: str = "hooks", **more: Any) -> Reply:
    request = Request(
        key="ab" * 16, provider="hooks", destination=destination, intent="Hook", body=BODY, **more
    )
    wire = prepare(provider, request)
    assert isinstance(wire, bytes), wire
    return await attempt(provider, msgspec.structs.replace(request, wire=wire))


def verified(seen: Seen, secret: str) -> Any:
    return standardwebhooks.Webhook(secret).verify(seen.body, seen.headers)


async def test_a_receiver_verifies_what_it_got_with_either_secret_while_they_rotate() -> None:
    async with (
        stub_provider() as stub,
        webhook(url=stub.url(), secrets=[{"env": "NEW"}, {"env": "OLD"}]) as hooks,
    ):
        assert (await sent(hooks)).outcome is Outcome.SENT
    (seen,) = stub.seen
    assert seen.body == BODY
    assert seen.headers["webhook-id"] == "ab" * 16
    assert verified(seen, OLD) == verified(seen, NEW) == {"name": "Zoë", "order_id": "o-1"}
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verified(seen, "whsec_" + base64.b64encode(b"x" * 32).decode())
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verified(Seen("POST", "/", seen.headers, seen.body + b" "), NEW)


async def test_a_repeat_has_the_same_id_and_bytes_and_is_signed_anew() -> None:
    async with stub_provider() as stub, webhook(url=stub.url(), secrets=[{"env": "NEW"}]) as hooks:
        stub.plan(stubs.answer(500))
        assert [(await sent(hooks)).outcome for _ in range(2)] == [Outcome.RETRY, Outcome.SENT]
    first, second = stubs.frozen(stub.seen, hooks.profile.volatile)
    assert first == second
    assert verified(stub.seen[1], NEW)


async def test_410_closes_the_destination() -> None:
    async with stub_provider() as stub, webhook(url=stub.url(), secrets=[{"env": "NEW"}]) as hooks:
        stub.plan(stubs.answer(410))
        reply = await sent(hooks)
    assert (reply.outcome, reply.hold) == (Outcome.REFUSED, True)


async def test_each_destination_has_its_own_address_and_secret() -> None:
    async with stub_provider() as acme, stub_provider() as other:
        async with webhook(
            url=other.url(),
            secrets=[{"env": "NEW"}],
            destinations={"acme": {"url": acme.url("/in"), "secrets": [{"env": "OLD"}]}},
        ) as hooks:
            assert (await sent(hooks, "acme")).outcome is Outcome.SENT
            assert (await sent(hooks)).outcome is Outcome.SENT
            missing = await sent(hooks, "nobody")
        assert verified(acme.seen[0], OLD)
        assert verified(other.seen[0], NEW)
    assert (missing.outcome, missing.hold) == (Outcome.NOT_SENT, True)


async def test_a_signature_for_one_url_is_good_at_no_other(tmp_path: Path) -> None:
    refs = [{"env": "NEW"}, {"env": "OLD"}]
    (tmp_path / "projectionist.toml").write_text(
        '[providers.hooks]\nurl_secrets = [{ env = "NEW" }, { env = "OLD" }]\n'
    )
    async with stub_provider() as acme, stub_provider() as other:
        async with webhook(url_secrets=refs) as hooks:
            for stub in (acme, other):
                assert (await sent(hooks, stub.url())).outcome is Outcome.SENT
        given = [
            (await run_projectionist("outbox", "webhook-secret", "hooks", url, cwd=tmp_path, **ENVIRON)).out
            for url in (acme.url(), other.url())
        ]
    for stub, own, foreign in ((acme, given[0], given[1]), (other, given[1], given[0])):
        for secret in own.split():
            assert verified(stub.seen[0], secret)
        for secret in (*foreign.split(), NEW, OLD):
            with pytest.raises(standardwebhooks.WebhookVerificationError):
                verified(stub.seen[0], secret)


async def test_the_secret_of_a_url_is_what_the_page_says() -> None:
    url = "https://acme.example/in"
    [secret] = Signer([b"n" * 32]).derived(url).secrets()
    mark = base64.b64encode(hmac.digest(b"n" * 32, url.encode(), "sha256")).decode()
    assert secret.reveal() == f"whsec_{mark}"


async def test_a_url_is_called_without_url_secrets_by_nobody() -> None:
    async with stub_provider() as stub, webhook(secrets=[{"env": "NEW"}]) as hooks:
        reply = await sent(hooks, stub.url())
    assert (reply.outcome, reply.hold, stub.seen) == (Outcome.NOT_SENT, True, [])
    assert "url_secrets" in reply.reason


@pytest.mark.parametrize("place", ["secrets", "destinations"])
async def test_a_secret_that_a_receiver_has_cannot_be_the_one_for_urls(place: str) -> None:
    given: dict[str, Any] = {
        "secrets": [{"env": "NEW"}],
        "destinations": {"acme": {"url": "https://acme.example/", "secrets": [{"env": "NEW"}]}},
    }
    with pytest.raises(SettingsError, match="also given to a receiver"):
        async with webhook(url_secrets=[{"env": "NEW"}], **{place: given[place]}):
            raise AssertionError("it was made")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["hooks"], "takes a provider and a URL"),
        (["hooks", "ftp://acme.example"], "is not http(s)"),
        (["mail", "https://acme.example"], "has no url_secrets"),
    ],
)
async def test_the_secret_of_a_url_is_refused_with_what_to_do(
    tmp_path: Path, words: list[str], says: str
) -> None:
    (tmp_path / "projectionist.toml").write_text('[providers.hooks]\nurl_secrets = [{ env = "NEW" }]\n')
    ended = await run_projectionist("outbox", "webhook-secret", *words, cwd=tmp_path, **ENVIRON)
    assert (ended.code in (1, 2), says in ended.err, ended.out) == (True, True, "")


@pytest.mark.parametrize(
    ("destination", "outcome"),
    [
        ("http://127.0.0.2/", Outcome.REFUSED),
        ("https://user:x@example.com/", Outcome.REFUSED),
        ("https://169.254.169.254/latest", Outcome.RETRY),
        ("https://[::1]/", Outcome.RETRY),
        ("https://inside.test/", Outcome.RETRY),
        ("https://2130706433/", Outcome.RETRY),
    ],
)
async def test_a_destination_inside_is_never_called(destination: str, outcome: Outcome) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    site = ProviderContext(environ=ENVIRON, resolve=resolve)
    async with webhook(site, url_secrets=[{"env": "NEW"}]) as hooks:
        assert (await sent(hooks, destination)).outcome is outcome


async def test_a_destination_whose_name_flips_is_checked_at_every_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Loopback stands for a public address here, so that the first attempt can get through.
    only_private = [(ip_network("10.0.0.0/8"), "private")]
    monkeypatch.setattr("projectionist.outbox.providers.address_ranges._RANGES", only_private)
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def resolve(_host: str, _port: int) -> list[str]:
        return answers.pop(0)

    async with tls_stub("flips.test") as (stub, ca_file):
        site = ProviderContext(environ=ENVIRON, resolve=resolve)
        section = {"url_secrets": [{"env": "NEW"}], "private_hosts": [], "ca_file": ca_file}
        async with webhook(site, **section) as hooks:
            first, second = [await sent(hooks, stub.url(host="flips.test")) for _ in range(2)]
    assert first.outcome is Outcome.SENT
    assert (second.outcome, "private" in second.reason) == (Outcome.RETRY, True)
    assert (answers, stub.connections) == ([], 1)


async def test_only_hosts_on_the_list_are_called_where_there_is_one() -> None:
    async with webhook(url_secrets=[{"env": "NEW"}], allow_hosts=["*.example.com"]) as hooks:
        reply = await sent(hooks, "https://example.org/")
    assert (reply.outcome, "not allowed" in reply.reason) == (Outcome.REFUSED, True)


@pytest.mark.parametrize("name", ["SHORT", "PLAIN"])
async def test_a_secret_too_short_or_not_base64_is_refused_and_not_shown(name: str) -> None:
    with pytest.raises(SettingsError, match="24 to 64 bytes") as caught:
        Webhook("hooks", settings_of(secrets=[{"env": name}]), ProviderContext(environ=ENVIRON))
    assert ENVIRON[name] not in str(caught.value)


async def test_no_secret_is_in_a_repr() -> None:
    async with webhook(secrets=[{"env": "NEW"}]) as hooks:
        shown = f"{vars(hooks)!r}"
    assert NEW not in shown
    assert repr(b"n" * 32) not in shown
