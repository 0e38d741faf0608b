"""Where Projectionist reaches into nats-py: for speed, and to leave nothing of a connection that is over.

Nothing but it and `careful_client` touches a private name of nats-py. `available()` tries every one of them; where it
says why not, `projectionist.core.nats.connections` connects with the latter, which is slower and keeps unsent acks.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import cache
from typing import Any, Protocol
from urllib.parse import urlparse

import msgspec
from nats.aio.client import Client as NatsClient
from nats.aio.client import Srv
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport
from nats.errors import Error as NatsError
from nats.protocol.parser import Parser

from projectionist.core.nats.careful_client import CarefulClient

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Arrival(msgspec.Struct, gc=False):
    """One message as it came from the broker, with its headers unread."""

    subject: str
    """Bytes that are not UTF-8 stand in it as half surrogate pairs, so that two subjects never become one."""
    reply: bytes
    """Where its ack goes; JetStream tells in it what it knows about the delivery."""
    head: bytes | None
    data: bytes
    received: float
    """Reading of `core.clock` from which its ack deadline runs."""
    connection: int = 0
    """How often the client had reconnected when it came."""


def weight(arrival: Arrival) -> int:
    """Return how many bytes an arrival counts for: what a sink was told at its end must come off again when it goes."""
    return len(arrival.data) + len(arrival.head or b"") + 2


class Sink(Protocol):
    """Takes what arrives on one subscription, on the event loop, without waiting. It must not raise."""

    def begin(self) -> tuple[list[Arrival], float]:
        """Return where to append the arrivals of this read, and the time to stamp them with."""

    def status(self, subject: str, head: bytes) -> None:
        """Take what JetStream says about a pull request."""

    def end(self, size: int) -> None:
        """Note the end of a read, whose arrivals hold so many bytes, as `weight` counts them."""


async def unsubscribe(client: NatsClient, subscription: Subscription) -> None:
    """End a subscription when what the broker had already sent on it has been handed over."""
    with contextlib.suppress(
        NatsError
    ):  # a closed connection has no subscriptions any more, a silent one sends nothing
        if client.is_connected:
            await subscription.drain()  # type: ignore[no-untyped-call]  # nats-py leaves it without types
        else:
            await subscription.unsubscribe()


class Client(CarefulClient):
    """A nats-py client that hands what arrives on some subscriptions to a `Sink`, as it came."""

    def __init__(self) -> None:
        super().__init__()
        self._sinks: dict[bytes, Sink] = {}
        self._ps = _Parser(self, self._sinks)

    async def listen(self, subject: str, sink: Sink) -> Callable[[], Awaitable[None]]:
        """Give what arrives on `subject` to `sink`, over reconnects; returns the function that ends it."""
        subscription = await self.subscribe(subject)
        sid = b"%d" % subscription._id
        self._sinks[sid] = sink

        async def stop() -> None:
            await unsubscribe(self, subscription)
            self._sinks.pop(sid, None)

        return stop

    def post(self, subjects: Iterable[bytes], payload: bytes = b"", reply: bytes = b"") -> bool:
        """Publish one payload to many subjects in one write; False, with nothing kept, while disconnected."""
        tail = b" %b %d\r\n%b\r\n" % (reply, len(payload), payload)
        return self._put(b"".join([b"PUB %b%b" % (subject, tail) for subject in subjects]))

    def put(self, subject: bytes, reply: bytes, head: bytes, payload: bytes) -> bool:
        """Publish one message with headers as they are on the wire; False, with nothing kept, while disconnected."""
        sizes = len(head), len(head) + len(payload)
        return self._put(b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject, reply, *sizes, head, payload))

    def _put(self, frames: bytes) -> bool:
        if not self.is_connected or self._flush_queue is None:
            return False
        self._pending.append(frames)
        self._pending_data_size += len(frames)
        if self._flush_queue.empty():
            self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())
        return True

    def discard_pending(self) -> int:
        """Throw away every byte that has not left this process; how many nats-py still held.

        Otherwise acks and publishes of the old connection are sent over the next one, when their deadline has
        passed and, on a stream made anew, for other messages.
        """
        held = self._pending_data_size
        self._pending.clear()
        self._pending_data_size = 0
        self._abort()
        return held

    def _abort(self) -> None:
        """End the connection there is, if any, with all that it has not sent."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            # Closed already (uvloop says ValueError of that), or not a socket. Raised from here it would end each
            # attempt to connect again, as what is closed stays so.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE
                )
            writer.transport.abort()  # close() would wait for a frozen server to take the rest

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Encrypt where that is wanted: nats-py leaves it to the server, and to whoever stands before it."""
        if initial_connection and self.options.get("tls") is not None and not info.get("tls_required"):
            if not info.get("tls_available"):
                raise NatsError("nats: the server does not offer TLS")
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    async def _attempt_reconnect(self) -> None:
        self.discard_pending()
        await super()._attempt_reconnect()

    async def _send_ping(self, future: asyncio.Future[bool] | None = None) -> None:
        """Write what waits before it: nats-py's PING overtakes that, and the PONG would say nothing of it."""
        if self._transport is not None and self._pending:
            self._transport.writelines(self._pending[:])
            self._pending, self._pending_data_size = [], 0
        await super()._send_ping(future)

    async def _connect_to_server(self, server: Srv) -> None:
        """Leave nothing of an attempt that failed: nats-py forgets its connection, open as it is, and its tasks."""
        self._abort()
        for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if task is not None:
                task.cancel()
        await super()._connect_to_server(server)


class _Parser(Parser):
    """Cuts the bytes into frames: those with a sink go there, all others whole to nats-py's own parser."""

    def __init__(self, client: NatsClient, sinks: dict[bytes, Sink]) -> None:
        self._sinks = sinks
        super().__init__(client)

    def reset(self) -> None:
        super().reset()
        self._begun: list[bytes] = []
        self._lacks = 0

    async def parse(self, data: bytes = b"") -> None:
        if self._begun:
            self._begun.append(data)
            self._lacks -= len(data)
            if self._lacks > 0:
                return
            data = b"".join(self._begun)
            self._begun = []
        at = 0
        while at < len(data):
            at, frame_end = self._take(data, at)
            if frame_end > len(data):
                self._begun = [data[at:]]
                self._lacks = frame_end - len(data)
                return
            if frame_end > at:
                await super().parse(data[at:frame_end])
                at = frame_end

    def _take(self, data: bytes, at: int) -> tuple[int, int]:
        """Give sinks their frames from `at` on; where the next other one begins and ends, as far as known."""
        size = len(data)
        open_sid, sink, stamp, carried, frame_end = None, None, 0.0, 0, at
        append: Callable[[Arrival], None] = _nowhere.append
        connection = self.nc.stats["reconnects"]
        while at < size:
            usual = _usual(data, at)
            if usual is None:
                subject, sid, reply, start, body, frame_end = _measure(data, at)
            else:
                subject, sid, reply, head_size, whole = usual.groups()
                start = usual.end()
                body, frame_end = start + int(head_size), start + int(whole) + 2
            if frame_end > size:
                break
            if sid != open_sid:
                if sink is not None:
                    sink.end(carried)
                open_sid, sink, carried = sid, self._sinks.get(sid), 0
                if sink is None:
                    break
                arrivals, stamp = sink.begin()
                append = arrivals.append
            if reply:
                head = data[start:body] if body > start else None
                payload, text = data[body : frame_end - 2], subject.decode("utf-8", "surrogateescape")
                append(
                    Arrival(
                        subject=text,
                        reply=reply,
                        head=head,
                        data=payload,
                        received=stamp,
                        connection=connection,
                    )
                )
                carried += frame_end - start
            elif sink is not None:
                sink.status(subject.decode("utf-8", "replace"), data[start:body])
            at = frame_end
        if sink is not None:
            sink.end(carried)
        return at, frame_end


_nowhere: list[Arrival] = []

_usual = re.compile(rb"HMSG ([^ ]+) ([0-9]+) ([^ ]+) ([0-9]{1,12}) ([0-9]{1,12})\r\n").match
"""The first line of an event: a message with headers that wants an answer. A third faster than `_measure`."""

_Frame = tuple[bytes, bytes, bytes, int, int, int]


def _measure(data: bytes, at: int) -> _Frame:
    """Return of the frame at `at`: subject, sid, reply, where head, body and the next frame begin. No sid if it is no
    message, and beyond the data if its first line is not whole."""
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return b"", b"", b"", at, at, len(data) + 1
    words, start = data[at:line_end].split(), line_end + 2
    try:
        if words[0] == b"HMSG":
            reply = words[3] if len(words) == 6 else b""
            return words[1], words[2], reply, start, start + int(words[-2]), start + int(words[-1]) + 2
        if words[0] == b"MSG":
            reply = words[3] if len(words) == 5 else b""
            return words[1], words[2], reply, start, start, start + int(words[-1]) + 2
    except (IndexError, ValueError):  # malformed: nats-py's parser says so
        pass
    return b"", b"", b"", start, start, start


@cache
def available() -> str:
    """Return "" if this nats-py is as this module knows it; otherwise what is different."""
    try:
        return _difference()
    except Exception as error:  # noqa: BLE001  another nats-py may fail in any way, and each means: use it plain
        return f"{type(error).__name__}: {error}"


def _difference() -> str:
    """Feed a client without a connection, whole and byte by byte, and see where everything went."""
    body, head = b"PING\r\n", b"NATS/1.0\r\na: b\r\n\r\n"
    sent = (
        b"HMSG s.1 7 r.1 %d %d\r\n%b%b\r\n" % (len(head), len(head) + len(body), head, body)
        + b"PING\r\nMSG s.2 7 r.2 6\r\n%b\r\n" % body
        + b"MSG s.3 8 r.3 6\r\n%b\r\nHMSG s.4 7 18 18\r\nNATS/1.0 100 a\r\n\r\n\r\n+OK\r\n" % body
    )
    expected = [
        ("sink", "s.1", b"r.1", head, body),
        ("ping",),
        ("sink", "s.2", b"r.2", None, body),
        ("nats-py", 8, b"s.3", b"r.3", body),
        ("status", "s.4", b"NATS/1.0 100 a\r\n\r\n"),
    ]
    for reads in ([sent], [sent[i : i + 1] for i in range(len(sent))]):
        probe = _Probe()
        for read in reads:
            _at_once(probe._ps.parse(read))
        if probe.seen != expected:
            return f"its parser is another one: {probe.seen}"
    _at_once(probe._send_command(b"12"))
    if (probe.pending_data_size, probe.discard_pending(), probe.pending_data_size) != (2, 2, 0):
        return "what it holds back cannot be discarded"
    probe.options["tls"] = ssl.create_default_context()
    with contextlib.suppress(NatsError):
        _at_once(probe._process_info({}, initial_connection=True))
        return "it cannot be held to TLS"
    if gossiped := _gossiped(probe):
        return f"it goes to addresses that servers name: {gossiped}"
    names = {"_attempt_reconnect", "_connect_to_server", "_process_connect_init", "_transport", "_io_writer"}
    names |= {"_reading_task", "_ping_interval_task", "_flush_queue", "_flusher_task", "_send_ping"}
    names |= {"_process_err", "_process_pong", "_pongs", "_resp_sub_prefix", "_subs", "_inbox_prefix"}
    missing = names - set(dir(probe)) - set(dir(TcpTransport()))  # type: ignore[no-untyped-call]  # as above
    return f"it has no {', '.join(sorted(missing))}" if missing else ""


def _gossiped(probe: Client) -> list[str]:
    """Return what an unencrypted client would try of the addresses that a server names."""
    probe.options["tls"] = None
    probe._current_server = Srv(urlparse("nats://127.0.0.1:1"))
    probe._left_out.add("192.0.2.1:4222")  # nothing to tell anybody
    _at_once(probe._process_info({"connect_urls": ["192.0.2.1:4222"]}, initial_connection=True))
    return [server.uri.netloc for server in probe._server_pool]


def _at_once(step: Coroutine[Any, Any, None]) -> None:
    """Run what only waits when there is something to wait for."""
    with contextlib.suppress(StopIteration):
        step.send(None)
        raise RuntimeError("it waits where it did not")


class _Probe(Client):
    """A client that notes what its parser hands on."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[object, ...]] = []
        self._arrivals: list[Arrival] = []
        self._sinks[b"7"] = self

    def begin(self) -> tuple[list[Arrival], float]:
        return self._arrivals, 0.0

    def status(self, subject: str, head: bytes) -> None:
        self.end(0)
        self.seen.append(("status", subject, head))

    def end(self, size: int) -> None:
        self.seen += [("sink", a.subject, a.reply, a.head, a.data) for a in self._arrivals]
        self._arrivals.clear()

    async def _process_ping(self) -> None:
        self.seen.append(("ping",))

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        self.seen.append(("nats-py", sid, subject, reply, data))
