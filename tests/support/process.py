"""A harness for the real command line: start it, hear its signals, kill it, read what it said."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
from tests.support.child import Orders
from tests.support.forked import Forked, can_fork, fork, session_environment
from tests.support.io_steps import Steps
from tests.support.waiting import HANG_S, Heard, eventually

ROOT = Path(__file__).parents[2]


class Ended(msgspec.Struct, frozen=True):
    """How a process ended: its exit code (negative: the signal that ended it) and what it wrote."""

    code: int
    out: str
    err: str


class Child:
    """A running `projectionist …`."""

    def __init__(self, process: Process | Forked, lines: _Lines, out: IO[bytes], err: IO[bytes]) -> None:
        self._process = process
        self._lines = lines
        self._out = out
        self._err = err

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def announced(self) -> Mapping[str, int]:
        """Return what it has announced, and how often."""
        return self._lines.heard.counts

    @property
    def has_ended(self) -> bool:
        """Return whether it is over."""
        return self._process.returncode is not None

    @property
    def out(self) -> str:
        """Return what it has written to its standard output so far."""
        return _text(self._out)

    @property
    def err(self) -> str:
        """Return what it has written to its standard error so far."""
        return _text(self._err)

    async def heard(self, name: str, count: int = 1, seconds: float = HANG_S) -> None:
        """Return when it has announced `name` `count` times; fail at once if it ends before."""
        waiting = asyncio.create_task(self._lines.heard.wait(name, count, seconds))
        ending = asyncio.create_task(self._ends())
        try:
            await asyncio.wait({waiting, ending}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done() and waiting.exception() is None:
                return
            if waiting.done():
                raise AssertionError(f"{waiting.exception()}\n{self.err}")
            raise AssertionError(f"it ended with {self._process.returncode} before {name!r}:\n{self.err}")
        finally:
            waiting.cancel()
            ending.cancel()

    async def _ends(self) -> None:
        """Return when it is over, and all that it announced has been heard."""
        await self._process.wait()
        await self._lines.over.wait()

    async def announces(self, name: str, count: int = 1) -> None:
        """Return when it has announced `name` `count` times, however long that takes."""
        await self._lines.heard.wait(name, count, 4 * HANG_S)

    async def said(self, text: str) -> None:
        """Return when it has written `text` to its standard error."""

        async def written() -> bool:
            return text in self.err

        await eventually(written)

    async def paused(self, name: str) -> None:
        """Return when it stands still at `name`, as `pause_at` told it: it announces first and stops then."""
        await self.heard(name)

        async def stopped() -> bool:
            ps = await asyncio.create_subprocess_exec("ps", "-o", "stat=", "-p", str(self.pid), stdout=PIPE)
            return (await ps.communicate())[0].strip().startswith(b"T")

        await eventually(stopped)

    async def ended(self, seconds: float = HANG_S) -> Ended:
        """Wait until it has ended."""
        try:
            async with asyncio.timeout(seconds):
                code = await self._process.wait()
        except TimeoutError:
            raise AssertionError(f"it still runs after {seconds} s:\n{self.out}{self.err}") from None
        return Ended(code, self.out, self.err)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal: SIGTERM asks it to stop, SIGKILL does not ask, SIGSTOP and SIGCONT pause it."""
        if self._process.returncode is None:
            self._process.send_signal(number)


@asynccontextmanager
async def projectionist(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    kill_at: Mapping[str, int] | None = None,
    pause_at: Mapping[str, int] | None = None,
    steps: Steps | None = None,
) -> AsyncIterator[Child]:
    """Run `projectionist ARGUMENTS`, killed at the end of the block if it has not ended.

    `kill_at={"name": n}` ends the process by SIGKILL inside its n-th announcement of `name`, `pause_at` stops
    it there until it gets SIGCONT; with `steps` it announces each of them.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        out, err = (stack.enter_context((folder / name).open("w+b")) for name in ("out", "err"))
        hears, tells = os.pipe()
        lifeline, held = os.pipe()
        stack.callback(os.close, held)
        lines = await _reader(stack, hears)
        orders = Orders(tells, lifeline, dict(kill_at or {}), dict(pause_at or {}), steps)
        environment = _environment(env or {}, orders)
        process = (
            await fork(arguments, (out.fileno(), err.fileno(), tells, lifeline), cwd, environment)
            if can_fork(environment)
            else await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.child", *arguments),
                stdin=DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=(tells, lifeline),
                cwd=cwd,
                env=environment,
            )
        )
        os.close(tells)
        os.close(lifeline)
        child = Child(process, lines, out, err)
        try:
            yield child
        finally:
            child.signal(signal.SIGKILL)
            await process.wait()


async def run_projectionist(*arguments: str, cwd: Path | None = None, **env: str) -> Ended:
    """Run `projectionist ARGUMENTS` to its end."""
    async with projectionist(*arguments, cwd=cwd, env=env) as child:
        return await child.ended(seconds=4 * HANG_S)  # some work for a minute when nothing disturbs them


class _Lines(asyncio.Protocol):
    def __init__(self) -> None:
        self.heard, self.over = Heard(), asyncio.Event()
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.heard.note(line.decode())

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()


async def _reader(stack: AsyncExitStack, descriptor: int) -> _Lines:
    lines = _Lines()
    file = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: lines, file)
    stack.callback(transport.close)
    return lines


def _environment(env: Mapping[str, str], orders: Orders) -> dict[str, str]:
    return {**session_environment(), **env, Orders.VARIABLE: msgspec.json.encode(orders).decode()}


def _text(file: IO[Any]) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode("utf-8", "replace")
