"""One HTTP exchange: at most one request, never a redirect, a bounded answer; it knows if a byte has left.

httpcore gives what this needs and no more: connections are verified by the host's name, while a network backend of ours
decides which address the name means at the moment of connecting.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

import anyio
import httpcore

from projectionist.outbox.providers.base import TOO_LATE, Request
from projectionist.outbox.providers.egress import AddressError, Egress, EgressError, Target, parse
from projectionist.outbox.providers.host_names import SlowName, TooManyLookups
from projectionist.outbox.providers.http_outcomes import HttpAnswer
from projectionist.outbox.providers.http_pool import IDLE_S, Connections, HttpConnection
from projectionist.outbox.providers.outgoing_headers import Headers, fault
from projectionist.outbox.providers.reply import Outcome, Reply

MOST_BYTES = 64 * 1024
"""The most that is read of an answer's body; the rest is not received."""

_CONNECT_S = 10.0

_FAILURES: list[tuple[type[Exception], str]] = [
    (httpcore.ConnectTimeout, "connecting took too long"),
    (httpcore.ConnectError, "could not connect"),
    (httpcore.RemoteProtocolError, "the connection ended without a whole answer"),
    (httpcore.ReadError, "the connection broke while the answer was awaited"),
    (httpcore.LocalProtocolError, "the request is not valid HTTP"),
    (socket.gaierror, "the name was not found"),
    (SlowName, "the name was not found in time"),
    (TooManyLookups, "too many names are being looked up"),
]

_PASSING = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.RemoteProtocolError, OSError)
"""Failures of the network. Any other one before a byte has left would come again: its cause is the request."""


class _TooLate(Exception):
    """The lease was over when the request was about to leave."""


class Transport:
    """The connections of one provider. `keep`: keep idle ones; where a repeat would not be recognised they
    are not kept, since a server that closes one just then makes the outcome unknown."""

    def __init__(self, egress: Egress, *, keep: bool, ca_file: str = "", idle_s: float = IDLE_S) -> None:
        self._egress = egress
        self._connections = Connections(egress, keep=keep, ca_file=ca_file, idle_s=idle_s)

    async def close(self) -> None:
        """Close every connection."""
        await self._connections.close()

    async def exchange(
        self, method: str, url: str, headers: Headers, body: bytes, request: Request
    ) -> HttpAnswer | Reply:
        """Return the answer, or the reply for an attempt that got none; also a bad call has a reply."""
        try:
            target = parse(url)
            self._egress.admit(target)
        except EgressError as error:
            return Reply(outcome=Outcome.REFUSED, reason=error.message)
        if unfit := fault(headers):
            return Reply(outcome=Outcome.REFUSED, reason=unfit)
        once = _Exchange(request)
        with anyio.move_on_after(request.timeout_s):
            try:
                async with self._connections.one(target) as line:
                    await once.run(line, method, target, headers, body)
            except _TooLate:
                return TOO_LATE
            except AddressError as error:
                return Reply(outcome=Outcome.RETRY, reason=error.message)
            except Exception as error:  # noqa: BLE001 - how far it had come says what it means, not what was raised
                once.error = error
        return once.result()


class _Exchange:
    """One exchange and how far it has come, readable at any moment it may be cut off."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._left = False
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._complete = False
        self.error: Exception | None = None

    async def run(
        self, line: HttpConnection, method: str, target: Target, headers: Headers, body: bytes
    ) -> None:
        line.leaving = self._leaving
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        extensions: dict[str, Any] = {"timeout": {"connect": _CONNECT_S}}
        sent = [("Host", target.authority), *headers, ("Content-Length", str(len(body)))]
        async with line.http.stream(
            method, url, headers=sent, content=body, extensions=extensions
        ) as response:
            self._status = response.status
            self._headers = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
            }
            async for chunk in response.aiter_stream():
                self._body += chunk
                if len(self._body) >= MOST_BYTES:
                    return
            self._complete = True

    def _leaving(self) -> None:
        """Note that the next bytes go to the socket, from which they cannot be taken back."""
        if not self._left and self._request.too_late():
            raise _TooLate
        self._left = True

    def result(self) -> HttpAnswer | Reply:
        """Return the answer if there is a status line, even if its body was cut; else the reply."""
        if self._status:
            return HttpAnswer(self._status, self._headers, bytes(self._body[:MOST_BYTES]), self._complete)
        missing = "answer" if self._left else "connection"
        reason = f"no {missing} within {self._request.timeout_s:g} s"
        reason = reason if self.error is None else _described(self.error)
        return Reply(outcome=self._outcome(), reason=reason, ours=isinstance(self.error, TooManyLookups))

    def _outcome(self) -> Outcome:
        if self._left:
            return Outcome.UNKNOWN
        passes = self.error is None or isinstance(self.error, _PASSING)
        return Outcome.NOT_SENT if passes else Outcome.REFUSED


def _described(error: Exception) -> str:
    """Describe a failure in our words: the library's may quote the request."""
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__ or error.__context__, ssl.SSLError):
        return "TLS could not be established"
    words = next((words for kind, words in _FAILURES if isinstance(error, kind)), "")
    return words or f"the exchange failed ({type(error).__name__})"
