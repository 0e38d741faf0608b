"""A proxy before PostgreSQL that knows our statements by their names and has any of them fail in any way.

What fails is not sent on: a statement that raises the wanted state is, so that the session's transaction is in the very
condition in which PostgreSQL leaves it after such an error.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import msgspec
from tests.support.gateway import standing_before
from tests.support.waiting import Heard

from projectionist.core.postgres.statements import Statements

ANY = "any"
COMMIT = "commit"
ROWS = "rows"
"""The statements that are generated, over the tables of read models."""

_GENERATION = re.compile(r"__g\d+\b")
_VERSION_3 = b"\0\3"
_TEXT = "somebody made it fail"
_PARSE, _BIND, _SYNC, _QUERY = b"P", b"B", b"S", b"Q"


class Fault(msgspec.Struct, frozen=True):
    """What happens to a statement, as long as it is told to."""

    statement: str
    """The name of its file (`outbox.` or `core.` before it, if it is of theirs), `rows.insert`, `commit`, or ANY."""
    state: str
    """The SQLSTATE that is answered."""
    holding: bytes | None = None
    """Only where its parameters hold these bytes."""
    ends: bool = False
    """Whether the session ends with it."""
    done: bool = False
    """Whether a COMMIT is carried out all the same, and only the answer is another."""


class Faults:
    """Hands messages on both ways; a statement that a fault stands against is failed instead."""

    def __init__(self, upstream: str, schema: str) -> None:
        self._upstream = urlsplit(upstream)
        self._names = {
            text: f"{prefix}{name}"
            for package, prefix in (("core", "core."), ("runner", ""), ("outbox", "outbox."))
            for name, text in Statements(f"projectionist.{package}", schema).items()
        }
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._standing: list[Fault] = []
        self.url = ""
        self.asked = Heard()
        """The statements that were asked for, by their names, those that failed among them."""
        self.failed = Heard()
        """The statements that were failed."""

    def stand(self, *faults: Fault) -> None:
        """From now on these faults stand, the first that fits before the others."""
        self._standing += faults

    def lift(self) -> None:
        """Nothing fails any more."""
        self._standing.clear()

    def name_of(self, text: str) -> str:
        """Name a statement as it is called here; what is none of ours, by its first word."""
        if (name := self._names.get(text)) is not None:
            return name
        word = text.split(None, 1)[0].rstrip(";").lower() if text.strip() else ""
        return f"{ROWS}.{word}" if _GENERATION.search(text) else word

    def meet(self, name: str, parameters: bytes) -> Fault | None:
        """The fault that a statement meets."""
        self.asked.note(name)
        for fault in self._standing:
            if fault.statement in (name, ANY) and (fault.holding is None or fault.holding in parameters):
                self.failed.note(name)
                self.failed.note(ANY)
                return fault
        return None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        there, back = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        for pump in (_Statements(self, reader, back, writer).run(), _hand_on(there, writer)):
            task = asyncio.get_running_loop().create_task(self._until_cut(pump, writer, back))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _until_cut(self, pump: Awaitable[None], *writers: asyncio.StreamWriter) -> None:
        self._writers.update(writers)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await pump
        finally:
            for writer in writers:
                writer.close()
                self._writers.discard(writer)

    async def close(self) -> None:
        """Drop everything."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()


class _Statements:
    """What one client asks for, message by message."""

    def __init__(
        self,
        faults: Faults,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
    ) -> None:
        self._faults = faults
        self._reader = reader
        self._back = back
        self._client = client
        self._prepared: dict[bytes, str] = {}
        self._met: Fault | None = None
        """What the statement has met whose messages are being held back, up to the one that ends it."""

    async def run(self) -> None:
        """Hand on, until one side has ended."""
        begun = False
        while not begun:  # a greeting is a message without a kind, and may ask for TLS first
            size = await self._reader.readexactly(4)
            greeting = await self._reader.readexactly(_length(size))
            self._back.write(size + greeting)
            begun = greeting.startswith(_VERSION_3)
        while True:
            kind, size = await self._reader.readexactly(1), await self._reader.readexactly(4)
            body = await self._reader.readexactly(_length(size))
            self._look(kind, body)
            if self._met is None:
                self._back.write(kind + size + body)
            elif kind in (_SYNC, _QUERY):
                fault, self._met = self._met, None
                if fault.ends and not fault.done:
                    return await self._end(fault)
                self._back.write(_instead(fault))
            await self._back.drain()

    def _look(self, kind: bytes, body: bytes) -> None:
        if self._met is not None:
            return
        if kind == _PARSE:
            name, text, _ = body.split(b"\0", 2)
            self._prepared[name] = self._faults.name_of(text.decode())
        elif kind == _BIND:
            _, name, parameters = body.split(b"\0", 2)
            self._met = self._faults.meet(self._prepared[name], parameters)
        elif kind == _QUERY:
            self._met = self._faults.meet(self._faults.name_of(body[:-1].decode()), b"")

    async def _end(self, fault: Fault) -> None:
        """The last word of a server to a session that it ends."""
        fields = b"".join(
            code + value.encode() + b"\0"
            for code, value in ((b"S", "FATAL"), (b"C", fault.state), (b"M", _TEXT))
        )
        self._client.write(b"E" + struct.pack("!i", len(fields) + 5) + fields + b"\0")
        await self._client.drain()


def _instead(fault: Fault) -> bytes:
    """Return what is sent in place of a statement. A COMMIT that fails has ended its transaction."""
    text = f"do $$ begin raise exception '{_TEXT}' using errcode = '{fault.state}'; end $$"
    if fault.ends:
        text = "select pg_terminate_backend(pg_backend_pid())"
    if fault.statement == COMMIT:
        text = f"{'commit' if fault.done else 'rollback'}; {text}"
    body = text.encode() + b"\0"
    return _QUERY + struct.pack("!i", len(body) + 4) + body


def _length(size: bytes) -> int:
    return int(struct.unpack("!i", size)[0]) - 4


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def faulty(upstream: str, schema: str) -> AsyncIterator[Faults]:
    """A proxy before the server at this URL; its own URL differs by host and port alone."""
    made = Faults(upstream, schema)
    async with standing_before(upstream, made.serve) as made.url:
        try:
            yield made
        finally:
            await made.close()
