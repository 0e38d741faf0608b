"""Mails handed to a real server: TLS, credentials, refusals, and the stage after which silence is unknown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.support.mail_server import DROP, HANG, PASSWORD, USER, MailServer, mail_server
from tests.support.waiting import HANG_S, HEARD_S

from projectionist.core import clock
from projectionist.core.errors import SettingsError
from projectionist.core.settings.settings import Settings
from projectionist.core.settings.sources import Layers, build
from projectionist.outbox.providers import Outcome, ProviderContext, Reply, Request, Smtp
from projectionist.outbox.providers.mail import FrozenMail
from projectionist.outbox.providers.runtime import attempt, prepare
from projectionist.outbox.providers.smtp import SmtpSettings

pytestmark = pytest.mark.asyncio
ENVIRON = {"SMTP_PASSWORD": PASSWORD, "WRONG": "nope"}


def settings_of(**section: Any) -> SmtpSettings:
    whole = {"host": "127.0.0.1", "sender": "Shop <shop@example.com>", **section}
    return build(SmtpSettings, whole, ("providers", "email"), Layers(Settings, None, {}))


@asynccontextmanager
async def smtp(server: MailServer, **section: Any) -> AsyncIterator[Smtp]:
    settings = settings_of(port=server.port, ca_file=server.ca_file, **section)
    provider = Smtp("email", settings, ProviderContext(environ=ENVIRON))
    try:
        yield provider
    finally:
        await provider.close()


async def sent(provider: Smtp, key: str = "k1", to: object = "a@example.org", **more: Any) -> Reply:
    request = Request(
        key=key,
        provider="email",
        destination="email",
        intent="Receipt",
        body=msgspec.json.encode({"order_id": "o-1", "to": to}),
        created=datetime(2026, 1, 2, tzinfo=UTC),
        **more,
    )
    wire = prepare(provider, request)
    assert isinstance(wire, bytes), wire
    return await attempt(provider, msgspec.structs.replace(request, wire=wire))


@pytest.mark.parametrize("tls", ["starttls", "tls", "none"])
async def test_a_mail_arrives_with_its_key_as_message_id(tls: str) -> None:
    async with mail_server(tls=tls) as server, smtp(server, tls=tls) as email:
        reply = await sent(email, to=["a@example.org", "b@example.org"])
    assert (reply.outcome, reply.status, reply.provider_id) == (Outcome.SENT, "250", "4XyZ1")
    (envelope,) = server.envelopes
    assert envelope.mail_from == "shop@example.com"
    assert envelope.rcpt_tos == ["a@example.org", "b@example.org"]
    assert len(server.mails("k1")) == 1


async def test_credentials_go_over_tls_and_wrong_ones_are_tried_again_later() -> None:
    async with mail_server(auth=True) as server:
        async with smtp(server, username=USER, password={"env": "SMTP_PASSWORD"}) as email:
            assert (await sent(email)).outcome is Outcome.SENT
        async with smtp(server, username=USER, password={"env": "WRONG"}) as email:
            reply = await sent(email)
            assert (reply.outcome, reply.reason) == (Outcome.RETRY, "the credentials were refused")
        async with smtp(server) as email:
            assert (await sent(email)).outcome is Outcome.RETRY
    assert len(server.envelopes) == 1


async def test_a_certificate_that_does_not_name_the_server_stops_everything() -> None:
    async with mail_server() as server:
        settings = settings_of(port=server.port)
        email = Smtp("email", settings, ProviderContext())
        reply = await sent(email)
        await email.close()
    assert reply.outcome is Outcome.NOT_SENT
    assert server.commands == []


async def test_a_server_without_starttls_is_never_spoken_to_in_the_clear() -> None:
    async with mail_server(tls="none") as server, smtp(server) as email:
        assert (await sent(email)).outcome is Outcome.NOT_SENT
    assert server.commands == []


@pytest.mark.parametrize(
    ("stage", "answer", "outcome"),
    [
        ("MAIL", "451 4.3.0 later", Outcome.RETRY),
        ("MAIL", "553 5.1.8 bad sender", Outcome.REFUSED),
        ("MAIL", DROP, Outcome.RETRY),
        ("RCPT", "450 4.2.1 greylisted", Outcome.RETRY),
        ("RCPT", "550 5.1.1 no such user", Outcome.REFUSED),
        ("RCPT", DROP, Outcome.RETRY),
        ("BEFORE", "452 4.3.1 full", Outcome.RETRY),
        ("BEFORE", "554 5.7.1 spam", Outcome.REFUSED),
        ("ASKED", "451 4.3.0 later", Outcome.RETRY),
        ("ASKED", "554 5.5.1 no valid recipients", Outcome.REFUSED),
        ("ASKED", DROP, Outcome.RETRY),
        ("DATA", DROP, Outcome.UNKNOWN),
    ],
)
async def test_each_stage_has_its_outcome(stage: str, answer: str, outcome: Outcome) -> None:
    async with mail_server() as server, smtp(server) as email:
        server.answers[stage] = [answer]
        reply = await sent(email)
        assert reply.outcome is outcome
        assert reply.status == (answer[:3] if answer != DROP else "")
        assert (await sent(email, key="k2")).outcome is Outcome.SENT
    assert len(server.mails("k1")) == (outcome is Outcome.UNKNOWN)


async def test_a_server_that_turns_everybody_away_does_not_refuse_this_mail() -> None:
    async def turn_away(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"554 5.3.2 no service here\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(turn_away, "127.0.0.1", 0)
    server = MailServer(port=listening.sockets[0].getsockname()[1])
    async with smtp(server) as email:
        assert (await sent(email)).outcome is Outcome.NOT_SENT
    listening.close()


async def test_one_refused_recipient_means_nobody_gets_it() -> None:
    async with mail_server() as server, smtp(server) as email:
        server.answers["RCPT"] = ["250 OK", "550 5.1.1 no such user"]
        reply = await sent(email, to=["a@example.org", "b@example.org"])
    assert (reply.outcome, reply.status) == (Outcome.REFUSED, "550")
    assert server.envelopes == []


@pytest.mark.parametrize(
    ("stage", "outcome"), [("RCPT", Outcome.RETRY), ("ASKED", Outcome.RETRY), ("DATA", Outcome.UNKNOWN)]
)
async def test_silence_is_unknown_only_after_the_message_was_handed_over(
    stage: str, outcome: Outcome
) -> None:
    async with mail_server() as server, smtp(server) as email:
        server.answers[stage] = [HANG]
        reply = await sent(email, timeout_s=HEARD_S)
    assert reply.outcome is outcome
    assert reply.took_s < HANG_S


@pytest.mark.parametrize(
    "letter",
    [
        FrozenMail("shop@example.com", ["a@example.org"], "Subject: Zoë\r\n\r\n"),
        FrozenMail("shop@example.com", ["zoë@example.org"], "Subject: x\r\n\r\n"),
        FrozenMail("zoë@example.com", ["a@example.org"], "Subject: x\r\n\r\n"),
    ],
)
async def test_a_letter_that_smtp_cannot_carry_is_refused_and_hands_over_nothing(letter: FrozenMail) -> None:
    class Own(Smtp):
        def letter(self, request: Request) -> FrozenMail:
            return letter

    async with mail_server() as server:
        email = Own("email", settings_of(port=server.port, ca_file=server.ca_file), ProviderContext())
        reply = await sent(email)
        await email.close()
    assert (reply.outcome, "no mail that SMTP carries" in reply.reason) == (Outcome.REFUSED, True)
    assert server.envelopes == []


async def test_nobody_there_is_not_sent() -> None:
    async with mail_server() as server:
        pass
    server.ca_file = ""
    async with smtp(server) as email:
        assert (await sent(email)).outcome is Outcome.NOT_SENT


async def test_what_fails_before_anybody_looks_at_the_mail_refuses_none() -> None:
    """A name is looked up in a thread, and the system may have none to spare."""
    email = Smtp("email", settings_of(host="mail.test"), ProviderContext())
    before = threading.stack_size(2**46)  # more than there is
    try:
        reply = await sent(email)
    finally:
        threading.stack_size(before)
    assert reply.outcome is Outcome.NOT_SENT


async def test_a_lease_that_ended_sends_no_message() -> None:
    async with mail_server() as server, smtp(server) as email:
        request = Request(
            key="k1",
            provider="email",
            destination="email",
            intent="Receipt",
            body=b'{"to":"a@example.org"}',
            not_after=clock.now() - 1,
        )
        late = msgspec.structs.replace(request, wire=email.render(request))
        assert (await email.send(late)).outcome is Outcome.NOT_SENT
    assert server.envelopes == []


async def test_connections_are_used_again_and_a_dropped_one_costs_nothing() -> None:
    async with mail_server() as server, smtp(server) as email:
        for number in range(3):
            assert (await sent(email, key=f"k{number}")).outcome is Outcome.SENT
        assert server.connections == 1
        server.answers["MAIL"] = [DROP]
        assert (await sent(email, key="k9")).outcome is Outcome.SENT
        assert (server.connections, len(server.mails("k9"))) == (2, 1)
        server.answers["MAIL"] = ["421 4.7.0 too many mails on this connection"]
        assert (await sent(email, key="k10")).outcome is Outcome.SENT


async def test_what_a_mail_says_comes_from_a_template_by_the_intents_name() -> None:
    templates = {"Receipt": {"subject": "Your order {order_id}", "text": "Thank you."}}
    async with mail_server() as server, smtp(server, templates=templates) as email:
        await sent(email)
    assert server.mails("k1")[0]["Subject"] == "Your order o-1"


async def test_an_intent_that_is_no_mail_is_refused_before_anything_is_sent() -> None:
    email = Smtp("email", settings_of(), ProviderContext())
    request = Request(key="k", provider="email", destination="email", intent="Receipt", body=b'{"to":""}')
    reply = prepare(email, request)
    assert isinstance(reply, Reply)
    assert (reply.outcome, "no recipient" in reply.reason) == (Outcome.REFUSED, True)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"sender": "nobody"}, "sender"),
        ({"username": "u"}, "belong together"),
        (
            {"host": "mail.test", "tls": "none", "username": "u", "password": {"env": "SMTP_PASSWORD"}},
            "show the",
        ),
        ({"tls": "maybe"}, "'starttls' or 'tls'"),
        ({"templates": {"Receipt": {"subject": "{a.b}"}}}, "not a field"),
        ({"port": 0}, "port"),
        ({"passwort": "x"}, "Did you mean 'password'"),
    ],
)
async def test_wrong_settings_are_told(section: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings_of(**section)


async def test_the_password_is_in_no_repr_and_no_reply() -> None:
    login = {"username": USER, "password": {"env": "SMTP_PASSWORD"}}
    async with mail_server(auth=True) as server, smtp(server, **login) as email:
        reply = await sent(email)
        assert PASSWORD not in f"{reply!r} {vars(email)!r} {email.settings!r}"
