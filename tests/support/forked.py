"""Processes of the command line that the fork server of this session has started."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.support.fork_server import Began, Over, Request

_ROOT = Path(__file__).parents[2]
_READ_AT_START = ("COVERAGE", "LANG", "LC_", "LD_", "OTEL_", "PYTHON", "TZ")
"""How the variables begin that Python, its libraries or the linker read once, when they are loaded."""


class _Server(NamedTuple):
    control: socket.socket
    read_at_start: dict[str, str]


class Forked:
    """A process that was forked: as much of `asyncio.subprocess.Process` as tests use."""

    def __init__(self, answers: socket.socket) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self._answers = answers
        self._ended = asyncio.Event()

    async def begun(self) -> None:
        """Return when it runs."""
        loop = asyncio.get_running_loop()
        answer = await loop.sock_recv(self._answers, 100)
        assert answer, "the fork server has ended"
        self.pid = msgspec.json.decode(answer, type=Began).pid
        loop.add_reader(self._answers, self._hear)

    async def wait(self) -> int:
        """Return its exit code, once it has ended."""
        await self._ended.wait()
        assert self.returncode is not None, "the fork server has ended"
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):  # ended, and we have not heard of it yet
            os.kill(self.pid, number)

    def _hear(self) -> None:
        asyncio.get_running_loop().remove_reader(self._answers)
        with self._answers:
            answer = self._answers.recv(100)
        if answer:
            self.returncode = msgspec.json.decode(answer, type=Over).code
        self._ended.set()


def can_fork(environment: Mapping[str, str]) -> bool:
    """Return whether what was imported before is what a process with this environment would import."""
    return sys.platform == "linux" and _read_at_start(environment) == _server().read_at_start


def session_environment() -> dict[str, str]:
    """Return the environment of this session, with which a process finds what tests have for it."""
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


async def fork(
    arguments: Sequence[str], descriptors: Sequence[int], cwd: Path | None, environment: Mapping[str, str]
) -> Forked:
    """Start the command line; `descriptors` are those of output, errors, announcements and lifeline."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    request = Request(list(arguments), str((cwd or Path.cwd()).resolve()), dict(environment))
    with theirs:
        socket.send_fds(_server().control, [msgspec.json.encode(request)], [theirs.fileno(), *descriptors])
    process = Forked(ours)
    await process.begun()
    return process


@cache
def _server() -> _Server:
    environment = session_environment()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=_ROOT,
            env=environment,
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return _Server(ours, _read_at_start(environment))


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}
