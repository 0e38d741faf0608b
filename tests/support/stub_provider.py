"""A real HTTP provider with a ledger by key, which misbehaves by script: one step for each request."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import h11
import trustme

CHUNK = b"x" * 65536
GIGABYTE = 1 << 30


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str:
        """The idempotency key, unquoted, wherever it was carried."""
        carried = self.headers.get("idempotency-key") or self.headers.get("webhook-id") or ""
        return carried.strip('"')


@dataclass(frozen=True)
class Dialect:
    """How a kind of provider answers a key it has seen: with other content, and while it is busy with it."""

    mismatch: tuple[int, object]
    in_flight: tuple[int, object]
    replay_header: str = ""


STRIPE = Dialect(
    (400, {"error": {"type": "idempotency_error", "message": "used with other parameters"}}),
    (409, {"error": {"code": "idempotency_key_in_use", "type": "invalid_request_error"}}),
    "idempotent-replayed",
)
RESEND = Dialect(
    (409, {"name": "invalid_idempotent_request"}), (409, {"name": "concurrent_idempotent_requests"})
)
IETF = Dialect(
    (422, {"title": "Idempotency-Key is already used"}), (409, {"title": "A request is outstanding"})
)


@dataclass(frozen=True)
class Line:
    """The connection of one request."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, status: int, result: object, headers: dict[str, str] | None = None) -> None:
        """One whole answer."""
        body = b"" if result is None else json.dumps(result).encode()
        head = [f"HTTP/1.1 {status} -", f"Content-Length: {len(body)}", "Content-Type: application/json"]
        head += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        await self.writer.drain()

    async def start(self, length: int, body: bytes = b"") -> None:
        """The head of a 200 answer and the beginning of its body."""
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + body)
        await self.writer.drain()

    async def closed(self) -> None:
        """Wait until the client has given up."""
        with suppress(ConnectionError):
            await self.reader.read()
        self.writer.transport.abort()

    def tear(self) -> None:
        """End the connection without ceremony."""
        self.writer.transport.abort()


Step = Callable[["StubProvider", Seen, Line], Awaitable[None]]


@dataclass
class StubProvider:
    """The server's memory. `executions[key]` is the number of times the effect really happened."""

    dialect: Dialect
    port: int = 0
    scheme: str = "http"
    seen: list[Seen] = field(default_factory=list)
    executions: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    results: dict[str, tuple[bytes, int, object]] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    script: list[Step] = field(default_factory=list)
    written: int = 0
    connections: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server has closed a connection that a client may still hold for good."""

    server: asyncio.Server | None = None

    def stop(self) -> None:
        """Be gone for whoever connects from now on."""
        assert self.server is not None
        self.server.close()

    def plan(self, *steps: Step) -> None:
        """Set what the next requests meet; afterwards everything works again."""
        self.script.extend(steps)

    def url(self, path: str = "/v1/charges", host: str = "127.0.0.1") -> str:
        """A URL of this server."""
        return f"{self.scheme}://{host}:{self.port}{path}"

    def execute(self, seen: Seen, status: int = 200, result: object = None) -> tuple[int, object, bool]:
        """Answer as an idempotent provider does: the first result of a key is the result of all later ones."""
        if seen.key in self.busy:
            return *self.dialect.in_flight, False
        known = self.results.get(seen.key)
        if known is not None:
            same = known[0] == seen.body
            return (known[1], known[2], True) if same else (*self.dialect.mismatch, False)
        self.executions[seen.key] += 1
        answer = result if result is not None else {"id": f"ch_{len(self.results) + 1}"}
        self.results[seen.key] = (seen.body, status, answer)
        return status, answer, False


async def execute(stub: StubProvider, seen: Seen, line: Line) -> None:
    """Do it, once a key, and say so."""
    status, result, replayed = stub.execute(seen)
    marked = replayed and stub.dialect.replay_header
    await line.send(status, result, {stub.dialect.replay_header: "true"} if marked else None)


async def execute_and_close(stub: StubProvider, seen: Seen, line: Line) -> None:
    """Do it, say so, and close the connection as an idle one."""
    await execute(stub, seen, line)
    line.writer.close()
    stub.idle.set()


async def execute_then_hang(stub: StubProvider, seen: Seen, line: Line) -> None:
    """Do it, and never answer."""
    stub.execute(seen)
    await line.closed()


async def execute_then_reset(stub: StubProvider, seen: Seen, line: Line) -> None:
    """Do it, and tear the connection down."""
    stub.execute(seen)
    line.tear()


async def sticky_500(stub: StubProvider, seen: Seen, line: Line) -> None:
    """Fail, and remember the failure as the result of this key."""
    status, result, _ = stub.execute(seen, 500, {"error": {"type": "api_error"}})
    await line.send(status, result)


async def reset_mid_body(stub: StubProvider, seen: Seen, line: Line) -> None:
    """Do it, announce an answer, and break off in the middle of it."""
    stub.execute(seen)
    await line.start(1000, b'{"id": ')
    line.tear()


async def slow_body(stub: StubProvider, seen: Seen, line: Line) -> None:
    """Do it, say so, and let the body drip until the client has had enough."""
    stub.execute(seen)
    await line.start(1_000_000)
    dripping = asyncio.create_task(line.closed())
    while not dripping.done():
        line.writer.write(b".")
        await asyncio.wait({dripping}, timeout=0.02)


async def gigabyte(stub: StubProvider, seen: Seen, line: Line) -> None:
    """Do it, and answer with 1 GB."""
    stub.execute(seen)
    await line.start(GIGABYTE)
    with suppress(ConnectionError):
        while stub.written < GIGABYTE:
            line.writer.write(CHUNK)
            await line.writer.drain()
            stub.written += len(CHUNK)
    line.tear()


def answer(status: int, result: object = None, **headers: str) -> Step:
    """Do nothing but answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def step(_stub: StubProvider, _seen: Seen, line: Line) -> None:
        await line.send(status, result, named)

    return step


def in_flight(stub: StubProvider) -> Step:
    """The provider's way to say that this key is being executed."""
    return answer(*stub.dialect.in_flight)


def redirect(location: str, status: int = 307) -> Step:
    """Send the client elsewhere."""
    return answer(status, None, location=location)


@asynccontextmanager
async def stub_provider(
    dialect: Dialect = STRIPE, tls: ssl.SSLContext | None = None
) -> AsyncIterator[StubProvider]:
    """A running provider on 127.0.0.1."""
    stub = StubProvider(dialect, scheme="https" if tls else "http")
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        stub.connections += 1
        try:
            await _converse(stub, Line(reader, writer))
        except (ConnectionError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            connections.discard(task)
            writer.transport.abort()

    server = stub.server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    stub.port = server.sockets[0].getsockname()[1]
    try:
        yield stub
    finally:
        server.close()
        for task in tuple(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


@asynccontextmanager
async def tls_stub(name: str) -> AsyncIterator[tuple[StubProvider, str]]:
    """A running provider whose certificate names `name`, and the file of the authority behind it."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    with authority.cert_pem.tempfile() as ca_file:
        async with stub_provider(tls=context) as stub:
            yield stub, ca_file


async def _converse(stub: StubProvider, line: Line) -> None:
    while (seen := await _request(line.reader)) is not None:
        stub.seen.append(seen)
        await (stub.script.pop(0) if stub.script else execute)(stub, seen, line)
        if line.writer.transport.is_closing():
            return


async def _request(reader: asyncio.StreamReader) -> Seen | None:
    connection = h11.Connection(h11.SERVER)
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            data = await reader.read(65536)
            if not data and head is None:
                return None
            connection.receive_data(data)
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode(): value.decode() for name, value in head.headers}
            return Seen(head.method.decode(), head.target.decode(), headers, bytes(body))
        else:
            return None


def frozen(seen: Sequence[Seen], volatile: Sequence[str]) -> list[bytes]:
    """The requests without what may differ between attempts, as comparable bytes."""
    return [
        json.dumps(
            [s.method, s.target, {k: v for k, v in s.headers.items() if k not in volatile}, s.body.decode()]
        ).encode()
        for s in seen
    ]
