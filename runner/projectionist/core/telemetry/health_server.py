"""A small HTTP listener: `/live`, `/ready`, `/startup`, `/metrics` where Prometheus asks, `/scale` of an observer; and
what systemd is told."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskStatus

from projectionist.core.errors import SettingsError
from projectionist.core.printable_text import visible_json
from projectionist.core.settings.listen_address import address
from projectionist.core.telemetry import liveness
from projectionist.core.testpoints import announce

if TYPE_CHECKING:
    from projectionist.core.telemetry.otel_setup import Scrape

MOST_BYTES = 8 * 1024
MOST_OPEN = 64
"""So many connections are served at once; further ones are closed."""
PATIENCE_S = 5.0
_WORDS = {
    200: "OK",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    503: "Service Unavailable",
}


class Health:
    """What is asked of this process; `troubles` says why it could not move data now."""

    def __init__(self) -> None:
        self.started = False
        self.troubles: Callable[[], list[str]] = list
        self.superseded: Callable[[], list[str]] = list
        """What newer code has taken over: somebody else serves it."""
        self.scale: Callable[[], tuple[bool, msgspec.Struct]] | None = None
        """How many processes are wanted, where this one looks after that, and whether that is known now."""

    def live(self) -> list[str]:
        """Return what speaks against this process: loops that hang. Neither broker nor database brings that about."""
        return liveness.late(vital=True)

    def ready(self) -> list[str]:
        """Return why no data flows now: a server is away, a loop hangs, it has not begun, or newer code is there."""
        return self.hindrances() + self.superseded()

    def hindrances(self) -> list[str]:
        """Return the same without what newer code has taken over."""
        begun = [] if self.started else ["starting"]
        return begun + self.live() + liveness.late(vital=False) + self.troubles()


class _Answer(msgspec.Struct):
    status: str
    why: list[str]


def is_own_host(header: str, hosts: Sequence[str]) -> bool:
    """Return whether a request for this `Host` is meant for us: a page in a browser that a name of its own leads here
    is not. Addresses, names without a dot (this machine, a container) and `hosts` are; so is no name at all."""
    name = header.strip().rpartition("@")[2].lower()
    host = name.partition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]
    host = host.rstrip(".")
    if "." not in host or host in {one.lower().rstrip(".") for one in hosts}:
        return True
    with suppress(ValueError):
        return bool(ip_address(host.strip("[]")))
    return False


class HealthServer:
    """Answers who asks, until cancelled."""

    def __init__(self, listen: str, health: Health, scrape: Scrape | None, hosts: Sequence[str] = ()) -> None:
        self._host, self._port = address(listen)
        self._hosts = (*hosts, self._host, socket.gethostname())
        self._open = 0
        self._health = health
        self._scrape, self._scraping = scrape, asyncio.Lock()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listen; SettingsError if somebody else does already."""
        try:
            server = await asyncio.start_server(self._serve, self._host, self._port, limit=MOST_BYTES)
        except OSError as error:
            raise SettingsError(
                f"[telemetry] listen: cannot listen at {self._host}:{self._port} ({error.strerror})",
                remedy="Give each process on this machine a port of its own",
            ) from None
        async with server:
            announce("health.listening")
            task_status.started()
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= MOST_OPEN:
            writer.transport.abort()
            return
        self._open += 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(request.decode("latin-1")))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # who asks and does not wait for the answer asks again
        finally:
            self._open -= 1
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, request: str) -> bytes:
        line, *headers = request.split("\r\n")
        named = next((one[5:] for one in headers if one[:5].lower() == "host:"), "")
        if not is_own_host(named, self._hosts):
            return _response(421, _NOT_OURS, "text/plain")
        method, _, rest = line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _response(405, b"", "text/plain")
        if path == "/metrics" and self._scrape is not None:
            async with self._scraping:  # beside the loop, which moves data meanwhile
                text = await anyio.to_thread.run_sync(self._scrape)
            return _response(200, text, "text/plain; version=0.0.4; charset=utf-8")
        if path == "/scale" and self._health.scale is not None:
            known, told = self._health.scale()
            return _response(200 if known else 503, msgspec.json.encode(told) + b"\n", "application/json")
        asked = {"/live": self._health.live, "/ready": self._health.ready}.get(path)
        if path == "/startup":
            asked = self._not_started
        if asked is None:
            return _response(404, b"/live, /ready, /startup, /metrics\n", "text/plain")
        why = asked()
        body = visible_json(msgspec.json.encode(_Answer("ok" if not why else "failing", why)).decode())
        return _response(503 if why else 200, f"{body}\n".encode(), "application/json")

    def _not_started(self) -> list[str]:
        return [] if self._health.started else ["starting"]


_NOT_OURS = b"this is no name of this process: add it to hosts of [telemetry], or ask by address\n"


def _response(status: int, body: bytes, kind: str) -> bytes:
    head = f"HTTP/1.1 {status} {_WORDS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def notify(state: str) -> None:
    """Tell systemd, where it has started us: READY=1, STOPPING=1, WATCHDOG=1. Silent elsewhere."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    if path.startswith("@"):
        path = "\0" + path[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server, suppress(OSError):
        server.sendto(state.encode(), path)


async def keep_notified(health: Health) -> None:
    """Say READY once it has begun, and WATCHDOG as often as systemd wants while the loops come by; until cancelled."""
    every_s = int(os.environ.get("WATCHDOG_USEC", "0")) / 2_000_000
    notified = False
    while os.environ.get("NOTIFY_SOCKET"):
        if health.started and not notified:
            notify("READY=1")
            notified = True
        if every_s and not health.live():
            notify("WATCHDOG=1")
        await anyio.sleep(min(every_s or 1.0, 1.0))


@contextmanager
def stopping() -> Iterator[None]:
    """Tell systemd at the end of the block that the process stops, which is no failure."""
    try:
        yield
    finally:
        notify("STOPPING=1")


async def answer(
    listen: str | None,
    health: Health,
    scrape: Callable[[], bytes] | None,
    hosts: Sequence[str] = (),
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve everything of this module for one process, until cancelled; it has begun once it listens."""
    with stopping():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_notified, health)
            if listen is not None:
                await tasks.start(HealthServer(listen, health, scrape, hosts).run)
            task_status.started()
