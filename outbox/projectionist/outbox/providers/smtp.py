"""Intents as mails over SMTP. Until the message is handed over nothing is unknown; after that, silence is."""

from __future__ import annotations

import ipaddress
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import aiosmtplib
import anyio
import msgspec

from projectionist.core.errors import SettingsError
from projectionist.core.settings.secret import Secret
from projectionist.outbox.providers.base import TOO_LATE, Provider, ProviderContext, RenderError, Request
from projectionist.outbox.providers.mail import FrozenMail, Template, address, compose
from projectionist.outbox.providers.profiles import SMTP
from projectionist.outbox.providers.reply import Outcome, Reply, clipped
from projectionist.outbox.providers.secret_ref import SecretRef
from projectionist.outbox.providers.settings import ProviderSettings

if TYPE_CHECKING:
    from aiosmtplib.protocol import SMTPProtocol

_IDLE_S = 20.0
_DATA = b"DATA\r\n"
_QUEUED = re.compile(r"queued as ([\w.-]{1,128})", re.IGNORECASE)


class SmtpSettings(ProviderSettings, frozen=True, kw_only=True):
    """The mail server to hand mails to, the sender, and what mails say, by the intent's name. `tls`:
    "starttls" and "tls" both verify the server's name; "none" carries no credentials to another machine.
    `allow_literals`: take recipients like `a@[192.0.2.1]` and `"a b"@example.org`."""

    host: str
    sender: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    tls: Literal["starttls", "tls", "none"] = "starttls"
    ca_file: str = ""
    username: str = ""
    password: SecretRef | None = None
    allow_literals: bool = False
    templates: dict[str, Template] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            address(self.sender, allow_literals=True)
        except RenderError as error:
            raise ValueError(f"sender: {error}") from None
        if bool(self.username) != (self.password is not None):
            raise ValueError("username and password belong together")
        if self.username and self.tls == "none" and not _here(self.host):
            raise ValueError('tls = "none" would show the password on the way to another machine')


class Smtp(Provider):
    """Hands mails to one server. Subclass it and override `letter` to write mails in code."""

    system = "smtp"
    Settings = SmtpSettings
    settings: SmtpSettings
    profile = SMTP

    def __init__(self, name: str, settings: SmtpSettings, site: ProviderContext) -> None:
        super().__init__(name, settings, site)
        self._password: Secret | None = settings.password.read(site.environ) if settings.password else None
        self._tls = ssl.create_default_context(cafile=settings.ca_file or None)
        self._idle: list[tuple[aiosmtplib.SMTP, float]] = []
        if not self.settings.host:
            raise SettingsError(f"[providers.{name}] has no host")

    async def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def host(self, request: Request) -> str | None:
        """Return the mail server."""
        return self.settings.host

    def letter(self, request: Request) -> FrozenMail:
        """Compose the mail for an intent: override to write it in code."""
        template = self.settings.templates.get(request.intent)
        return compose(request, self.settings.sender, template, allow_literals=self.settings.allow_literals)

    def render(self, request: Request) -> bytes:
        """Freeze envelope and message; the Message-ID is made of the key."""
        return msgspec.json.encode(self.letter(request))

    async def send(self, request: Request) -> Reply:
        """Hold one dialogue, on a connection left over from an earlier mail where there is one."""
        letter = request.frozen(FrozenMail)
        dialogue = _Dialogue(letter, request)
        with anyio.move_on_after(request.timeout_s):
            for client, fresh in [(self._left_over(), False), (self._client(request), True)]:
                if client is None:
                    continue
                reply = await self._with(client, dialogue, fresh)
                # A server drops idle connections without a word; nothing was handed over, so begin again.
                if fresh or dialogue.handed_over or reply.outcome not in (Outcome.RETRY, Outcome.NOT_SENT):
                    return reply
        return dialogue.lost(f"no answer within {request.timeout_s:g} s")

    async def _with(self, client: aiosmtplib.SMTP, dialogue: _Dialogue, fresh: bool) -> Reply:
        reusable = False
        try:
            if fresh:
                await self._greet(client, dialogue)
            reply = await dialogue.run(client)
            reusable = client.is_connected
        except Exception as error:  # noqa: BLE001 - how far it had come says what it means, not what was raised
            reply = dialogue.failed(error)
            reusable = (
                await _start_over(client) if isinstance(error, aiosmtplib.SMTPResponseException) else False
            )
        finally:
            if reusable and len(self._idle) < self.settings.concurrency:
                self._idle.append((client, time.monotonic()))
            else:
                client.close()
        return reply

    async def _greet(self, client: aiosmtplib.SMTP, dialogue: _Dialogue) -> None:
        await client.connect()
        dialogue.connected = True
        if self._password is not None:
            await client.login(self.settings.username, self._password.reveal())

    def _client(self, request: Request) -> aiosmtplib.SMTP:
        return aiosmtplib.SMTP(
            hostname=self.settings.host,
            port=self.settings.port,
            use_tls=self.settings.tls == "tls",
            start_tls=self.settings.tls == "starttls",
            tls_context=self._tls,
            timeout=request.timeout_s,
        )

    def _left_over(self) -> aiosmtplib.SMTP | None:
        while self._idle:
            client, since = self._idle.pop()
            if client.is_connected and time.monotonic() - since < _IDLE_S:
                return client
            client.close()
        return None


class _Dialogue:
    """One mail and how far its dialogue has come."""

    def __init__(self, letter: FrozenMail, request: Request) -> None:
        self._letter = letter
        self._request = request
        self.connected = False
        self.handed_over = False

    async def run(self, client: aiosmtplib.SMTP) -> Reply:
        """Send to all recipients or to none: one refused RCPT ends the dialogue."""
        self.connected = True
        await client.mail(self._letter.sender)
        for recipient in self._letter.recipients:
            await client.rcpt(recipient)
        if self._request.too_late():
            await client.rset()
            return TOO_LATE
        message = self._letter.message.encode("ascii")
        with _watched(client.protocol, self._leaving):
            answer = await client.data(message)
        queued = _QUEUED.search(answer.message)
        return Reply(
            outcome=Outcome.SENT,
            status=str(answer.code),
            excerpt=clipped(answer.message),
            provider_id=queued[1] if queued else "",
        )

    def _leaving(self) -> None:
        self.handed_over = True

    def failed(self, error: Exception) -> Reply:
        """Turn a failure into a reply, by the stage it came in. A server that refuses every client says nothing about
        this mail, whatever its code."""
        if self.connected and isinstance(error, aiosmtplib.SMTPResponseException):
            return classify(error.code, error.message, credentials=_about_credentials(error))
        kind = "TLS could not be established" if isinstance(error, ssl.SSLError) else type(error).__name__
        begun = self.connected and not self.handed_over
        if begun and not isinstance(error, aiosmtplib.SMTPException | OSError):
            return Reply(outcome=Outcome.REFUSED, reason=f"this is no mail that SMTP carries ({kind})")
        return self.lost(f"the dialogue failed ({kind})")

    def lost(self, reason: str) -> Reply:
        """Return the reply to silence or a lost connection: unknown only once the message has been handed over."""
        if self.handed_over:
            return Reply(outcome=Outcome.UNKNOWN, reason=f"{reason}, after the message was handed over")
        return Reply(outcome=Outcome.RETRY if self.connected else Outcome.NOT_SENT, reason=reason)


def classify(code: int, text: str, *, credentials: bool) -> Reply:
    """Turn an SMTP reply code into a reply. Pure. Refused credentials are a fault of our settings: tried again."""
    passing = credentials or 400 <= code < 500
    reason = "the credentials were refused" if credentials else "not taken now" if passing else "refused"
    return Reply(
        outcome=Outcome.RETRY if passing else Outcome.REFUSED,
        reason=reason,
        status=str(code),
        excerpt=clipped(text),
    )


def _about_credentials(error: aiosmtplib.SMTPResponseException) -> bool:
    return isinstance(error, aiosmtplib.SMTPAuthenticationError) or error.code in (530, 534, 535, 538)


@contextmanager
def _watched(protocol: SMTPProtocol | None, leaving: Callable[[], None]) -> Iterator[None]:
    """Call `leaving` before the message itself goes out, which is after the server has answered to DATA."""
    if protocol is None:  # the client says so itself
        yield
        return
    write = protocol.write

    def watched(data: bytes) -> None:
        if data != _DATA:
            leaving()
        write(data)

    protocol.write = watched  # type: ignore[method-assign]  # the one place where the library shows its two steps
    try:
        yield
    finally:
        del protocol.write


async def _start_over(client: aiosmtplib.SMTP) -> bool:
    """Reset the connection after a refusal; return True where it is good for another mail."""
    try:
        await client.rset()
    except aiosmtplib.SMTPException:
        return False
    return client.is_connected


def _here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
