"""The steps of a process out of itself, counted: what it is about to send, to read of an answer, or to do to a file.

A call to a server has two: before anything is sent, and when the answer is there and not read yet. What a process that
dies may lose is lost at one of them. Sockets are those of asyncio's own event loop: uvloop is left out here.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
from asyncio import selector_events
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

Note = Callable[[str], None]
STEP = "step "
"""How the announcement of a step begins."""
_FILES = ("os.rename", "os.remove", "os.mkdir", "os.truncate", "os.link")
_TYPED = b"PBSQEDHCXF"
"""What a message of PostgreSQL's protocol may begin with; the greeting has no type."""


class Steps(msgspec.Struct, frozen=True):
    """What a child is told: where its servers are, and at which step it is cut off."""

    postgres: int
    nats: int
    folder: str
    at: str = ""
    """The name of the step, at whose `nth` time it is cut off."""
    nth: int = 1
    sleeps: bool = False
    """Whether it stops there until it gets SIGCONT, in place of dying."""


class Wire:
    """One connection, as far as its steps can be named."""

    def __init__(self, steps: Steps, transport: Any) -> None:
        port = (transport.get_extra_info("peername") or ("", 0))[1]
        self.peer = {steps.postgres: "postgres", steps.nats: "nats"}.get(port, "provider")
        self._statements: dict[bytes, str] = {}
        self._last = "greeting"

    def sends(self, data: bytes) -> str:
        """Name what is about to be sent."""
        read = {"postgres": self._of_postgres, "nats": _of_nats}.get(self.peer, _of_http)
        self._last = read(data) or self._last
        return f"{self.peer} < {self._last}"

    def hears(self) -> str:
        """Name what is about to be read."""
        return f"{self.peer} > {self._last}"

    def _of_postgres(self, data: bytes) -> str:
        said, at = [], 0
        while at + 5 <= len(data) and data[at : at + 1] in _TYPED:
            kind, size = data[at : at + 1], struct.unpack_from(">i", data, at + 1)[0]
            body = data[at + 5 : at + 1 + size]
            if kind == b"P":
                name, _, rest = body.partition(b"\0")
                self._statements[name] = _words(rest.partition(b"\0")[0])
            elif kind == b"Q":
                said.append(_words(body.rstrip(b"\0")))
            elif kind in b"DB":
                name = body[1:] if kind == b"D" else body.partition(b"\0")[2]
                said.append(self._statements.get(name.partition(b"\0")[0], "a statement"))
            at += 1 + size
        return " + ".join(dict.fromkeys(said))


def _words(text: bytes) -> str:
    """Return the beginning of a statement; our files begin with what they are about."""
    return " ".join(text.decode("utf-8", "replace").split())[:60]


def _of_nats(data: bytes) -> str:
    said = []
    for line in data.split(b"\r\n"):
        verb, _, rest = line.partition(b" ")
        if verb in (b"PUB", b"HPUB"):
            subject = rest.split(b" ")[0].decode("utf-8", "replace").split(".")
            kind = "ack" if subject[:2] == ["$JS", "ACK"] else ".".join(subject[2:4])
            said.append(kind if subject[0] == "$JS" else "publish")
        elif verb in (b"CONNECT", b"PING", b"PONG", b"SUB", b"UNSUB"):
            said.append(verb.decode().lower())
    return " + ".join(dict.fromkeys(said))


def _of_http(data: bytes) -> str:
    return data.split(b" ")[0].decode("ascii", "replace")[:10]


class StepCounter:
    """Notes each step of this process, and cuts it off at the one that was asked for."""

    def __init__(self, steps: Steps, note: Note) -> None:
        self._steps, self._note = steps, note
        self._one = threading.Lock()
        self._times: Counter[str] = Counter()
        self._wires: dict[int, tuple[Wire, Any]] = {}

    def step(self, name: str) -> None:
        """Note one. Whoever stops here goes on from here."""
        with self._one:
            self._times[name] += 1
            self._note(f"{STEP}{name}")
            if name == self._steps.at and self._times[name] == self._steps.nth:
                os.kill(os.getpid(), signal.SIGSTOP if self._steps.sleeps else signal.SIGKILL)

    def wire(self, transport: Any) -> Wire:
        """Return what is known of a connection. The transport is kept, so that no later one has its id."""
        if id(transport) not in self._wires:
            self._wires[id(transport)] = Wire(self._steps, transport), transport
        return self._wires[id(transport)][0]

    def hear_of_files(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note what is about to change a file below the folder; an audit hook."""
        if event == "open":
            path, mode, flags = arguments
            if not (set(mode or "") & set("wax+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR)):
                return
        elif event in _FILES:
            path = arguments[0]
        else:
            return
        if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(self._steps.folder):
            self.step(f"disk < {event} {Path(os.fsdecode(path)).suffix}")


def count_steps(steps: Steps, note: Note) -> None:
    """From now on count the steps of this process."""
    counter = StepCounter(steps, note)
    cls: Any = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    for name in ("_read_ready__data_received", "_read_ready__get_buffer"):
        setattr(cls, name, _reading(counter, getattr(cls, name)))
    cls.write = _writing(counter, cls.write, bytes)
    if "writelines" in vars(cls):  # else it is one write of all
        cls.writelines = _writing(counter, cls.writelines, b"".join)
    sys.addaudithook(counter.hear_of_files)
    sys.modules["uvloop"] = None  # type: ignore[assignment] # as where it is not installed


def _reading(counter: StepCounter, read: Callable[[Any], None]) -> Callable[[Any], None]:
    def reading(transport: Any) -> None:
        counter.step(counter.wire(transport).hears())
        read(transport)

    return reading


def _writing(
    counter: StepCounter, write: Callable[[Any, Any], None], joined: Callable[[Any], bytes]
) -> Callable[[Any, Any], None]:
    def writing(transport: Any, data: Any) -> None:
        data = data if isinstance(data, bytes | bytearray | memoryview) else list(data)
        counter.step(counter.wire(transport).sends(joined(data)))
        write(transport, data)

    return writing
