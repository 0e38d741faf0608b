"""A real SMTP server with TLS and authentication, which refuses or falls silent where it is told to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from email.policy import default
from functools import partial

import trustme
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "shop", "pass-canary"

DROP = "DROP"
"""In `answers`: end the connection instead of answering."""
HANG = "HANG"
"""In `answers`: say nothing any more."""


@dataclass
class MailServer:
    """What arrived, and what to answer instead: by stage, then by turn. "ASKED": after the command DATA;
    "BEFORE" and "DATA": after the message, without and with taking it."""

    port: int = 0
    ca_file: str = ""
    envelopes: list[Envelope] = field(default_factory=list)
    answers: dict[str, list[str]] = field(default_factory=dict)
    connections: int = 0
    commands: list[str] = field(default_factory=list)

    listening: asyncio.Server | None = None

    def stop(self) -> None:
        """Be gone for whoever connects from now on."""
        assert self.listening is not None
        self.listening.close()

    def mails(self, key: str) -> list[Message]:
        """The messages whose Message-ID is made of this key."""
        parse = BytesParser(policy=default).parsebytes
        parsed = [parse(e.original_content or b"") for e in self.envelopes]
        return [mail for mail in parsed if str(mail["Message-ID"]).startswith(f"<{key}@")]

    async def _instead(self, stage: str, server: SMTP) -> str | None:
        self.commands.append(stage)
        told = self.answers.get(stage, [])
        answer = told.pop(0) if told else None
        if answer == DROP:
            _abort(server)
            raise asyncio.CancelledError
        if answer == HANG:
            await asyncio.Event().wait()
        return answer

    async def handle_MAIL(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        answer = await self._instead("MAIL", server)
        if answer is None:
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return answer or "250 OK"

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        answer = await self._instead("RCPT", server)
        if answer is None:
            envelope.rcpt_tos.append(address)
        return answer or "250 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        stage = self.answers.get("BEFORE", [])
        if stage:
            return stage.pop(0)
        self.envelopes.append(envelope)
        return await self._instead("DATA", server) or "250 2.0.0 Ok: queued as 4XyZ1"

    async def ask(self, server: SMTP) -> bool:
        """Return whether the server goes on to take a message."""
        answer = await self._instead("ASKED", server)
        if answer is not None:
            await server.push(answer)
        return answer is None

    def authenticate(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: object
    ) -> AuthResult:
        right = isinstance(data, LoginPassword) and data == LoginPassword(USER.encode(), PASSWORD.encode())
        return AuthResult(success=right, handled=False)


class _Server(SMTP):
    """aiosmtpd's, which has no hook between the command DATA and the message."""

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802 - aiosmtpd's name
        handler = self.event_handler
        assert isinstance(handler, MailServer)
        if await handler.ask(self):
            await super().smtp_DATA(arg)


@asynccontextmanager
async def mail_server(*, tls: str = "starttls", auth: bool = False) -> AsyncIterator[MailServer]:
    """A running server on 127.0.0.1 for "starttls", "tls" or "none", whose certificate names mail.test."""
    server = MailServer()
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("mail.test", "127.0.0.1").configure_cert(context)
    protocols: list[SMTP] = []

    def connected() -> SMTP:
        server.connections += 1
        protocol = make()
        protocols.append(protocol)
        return protocol

    make = partial(
        _Server,
        server,
        hostname="mail.test",
        tls_context=context if tls == "starttls" else None,
        require_starttls=tls == "starttls",
        auth_required=auth,
        auth_require_tls=tls == "starttls",
        authenticator=server.authenticate,
        loop=asyncio.get_running_loop(),
    )
    listening = server.listening = await asyncio.get_running_loop().create_server(
        connected, "127.0.0.1", 0, ssl=context if tls == "tls" else None
    )
    server.port = listening.sockets[0].getsockname()[1]
    with authority.cert_pem.tempfile() as server.ca_file:
        try:
            yield server
        finally:
            listening.close()
            for protocol in protocols:
                _abort(protocol)
                handler = getattr(protocol, "_handler_coroutine", None)
                if handler is not None:
                    handler.cancel()
                    await asyncio.gather(handler, return_exceptions=True)


def _abort(protocol: SMTP) -> None:
    transport = protocol.transport
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
