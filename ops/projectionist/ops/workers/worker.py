"""One worker: a runner in a process of its own, in the state in which its supervisor knows it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from subprocess import DEVNULL

import anyio
from anyio.abc import Process

from projectionist.core import clock
from projectionist.ops.workers.link import VARIABLE, SupervisorLink
from projectionist.ops.workers.worker_end import WorkerEnd

log = logging.getLogger("projectionist.ops")

OF_SYSTEMD = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")
"""Variables by which systemd expects the supervisor alone to speak."""
HUNG_S = 30.0
"""How long a worker may say that a loop without which it is no use does not come by."""
SILENT_S = 15.0
"""How long a worker may say nothing at all, beyond the time after which its own watchdog ends it."""
READ_S = 0.5
"""How long is read on, after a worker's end, what it had said before."""
KILLED_S = 10.0
"""How long a worker has to end that was told to since it hangs."""


class Worker:
    """A process that has been started, until it has ended."""

    def __init__(self, number: int, process: Process, line: SupervisorLink, silent_s: float) -> None:
        self.number, self.line = number, line
        self._process, self._silent_s = process, silent_s
        self._hung_at: float | None = None

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    @property
    def hindrances(self) -> list[str]:
        """Return why it moves no data."""
        report, heard_at = self.line.report, self.line.heard_at
        if report is None or heard_at is None:
            return ["starting"]
        silent_s = clock.now() - heard_at
        return report.hindrances if silent_s < SILENT_S else [f"has said nothing for {silent_s:.0f} s"]

    @property
    def superseded(self) -> list[str]:
        """Return what newer code has taken over."""
        return [] if self.line.report is None else self.line.report.superseded

    def tell(self, number: signal.Signals) -> None:
        """Pass a signal on to it; nothing happens to one that has ended."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def over(self) -> WorkerEnd:
        """Wait until it has ended, and say how; one that hangs is ended."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(self.line.listen)
            beside.start_soon(self._end_hung)
            code = await self._process.wait()
            with anyio.move_on_after(READ_S):  # a process of its own may hold the line's other end
                await self.line.ended.wait()
            beside.cancel_scope.cancel()
        ready_at = self.line.ready_at
        return WorkerEnd(code, None if ready_at is None else clock.now() - ready_at)

    async def gone(self) -> None:
        """End it in any case, and wait until it has ended."""
        if self._process.returncode is None:
            with anyio.CancelScope(shield=True):
                self.tell(signal.SIGKILL)
                await self._process.wait()

    async def _end_hung(self) -> None:
        while True:
            if (why := self._overdue()) is not None:
                break
            await anyio.sleep(1)
        log.warning("worker %d (process %d) %s: ending it", self.number, self.pid, why)
        self.tell(signal.SIGTERM)
        await anyio.sleep(KILLED_S)
        self.tell(signal.SIGKILL)

    def _overdue(self) -> str | None:
        """Return why it is to be ended: its own watchdog has not. One that has said nothing yet imports an app."""
        report, heard_at, now = self.line.report, self.line.heard_at, clock.now()
        if report is None or heard_at is None:
            return None
        self._hung_at = None if not report.live else self._hung_at or heard_at
        if self._hung_at is not None and now - self._hung_at >= HUNG_S:
            return f"hangs ({', '.join(report.live)})"
        return "says nothing any more" if now - heard_at >= self._silent_s else None


async def started(number: int, words: Sequence[str], watchdog_timeout_s: float) -> Worker:
    """Start a worker with the words of its command line, which hears no signal of a terminal: its supervisor does."""
    ours, theirs = socket.socketpair()
    with theirs, ExitStack() as failed:
        failed.enter_context(ours)
        environment = {name: value for name, value in os.environ.items() if name not in OF_SYSTEMD}
        process = await anyio.open_process(
            [sys.executable, "-m", "projectionist.ops", *words],
            stdin=DEVNULL,
            stdout=None,
            stderr=None,
            env=environment | {VARIABLE: f"{number}:{theirs.fileno()}"},
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
        )
        failed.pop_all()
    return Worker(number, process, SupervisorLink(ours), watchdog_timeout_s + SILENT_S)
