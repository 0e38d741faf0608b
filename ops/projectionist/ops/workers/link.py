"""The line between a supervisor and one worker: a socket that both hold, by which each also hears of the other's end.

A worker tells how it is by itself, ten times a second where that changes and once a second anyhow, and its metrics when
asked. A supervisor that is gone, however it ended, asks nothing and restarts nobody: its workers stop then, as on
SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from projectionist.core import clock

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from projectionist.core.telemetry.health_server import Health
    from projectionist.core.telemetry.otel_setup import Scrape

log = logging.getLogger("projectionist.ops")

VARIABLE = "_PROJECTIONIST_WORKER"
"""Set for a worker alone: its number and the descriptor of its end of the line."""
LOOKED_S, REPEATED_S = 0.1, 1.0
ASKED_S = 2.0
"""How long a worker may take to say its metrics."""
MOST_BYTES = 64 * 1024 * 1024
ORPHAN_S = 60.0
"""After so long a worker without a supervisor ends at once: more than `shutdown_s` and the last roll back take."""


class Report(msgspec.Struct, frozen=True):
    """Says how a worker is, in the words of its own `Health`."""

    started: bool
    live: list[str]
    hindrances: list[str]
    superseded: list[str]


class _Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line from a worker: its report, or the answer to a question of this number."""

    number: int = 0
    report: Report | None = None
    metrics: str = ""


class WorkerLink:
    """A worker's end."""

    def __init__(self, worker: int, end: socket.socket) -> None:
        self.worker = worker
        self._socket = end
        threading.Thread(target=_end_with, args=(os.dup(end.fileno()),), daemon=True).start()

    async def __call__(self, health: Health, scrape: Scrape | None, *, task_status: TaskStatus[None]) -> None:
        """Tell how this process is, until cancelled or nobody is left to listen."""
        reader, writer = await asyncio.open_connection(sock=self._socket)
        task_status.started()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_report, writer, health)
            with suppress(OSError):
                while number := await reader.readline():
                    metrics = b"" if scrape is None else await anyio.to_thread.run_sync(scrape)
                    await _write(writer, _Word(number=int(number), metrics=metrics.decode()))
            tasks.cancel_scope.cancel()


def inherited(environment: MutableMapping[str, str]) -> WorkerLink | None:
    """Return the line to whoever has started this process as a worker; None for a process that nobody supervises.

    Nothing that this process starts is a worker, nor does it hold the line.
    """
    number, _, descriptor = environment.pop(VARIABLE, "").partition(":")
    if not descriptor:
        return None
    os.set_inheritable(int(descriptor), False)
    return WorkerLink(int(number), socket.socket(fileno=int(descriptor)))


def _end_with(descriptor: int) -> None:
    """Stop this process when the line's other end is closed. On a thread: an event loop may hang, or be yet to come."""
    line = select.poll()
    line.register(descriptor, 0)
    line.poll()
    log.warning("the supervisor of this worker is gone: stopping; what has begun is settled")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_S)
    os.kill(os.getpid(), signal.SIGKILL)


async def _report(writer: asyncio.StreamWriter, health: Health) -> None:
    told, told_at = None, 0.0
    with suppress(OSError):
        while True:
            now = Report(health.started, health.live(), health.hindrances(), health.superseded())
            if now != told or clock.now() - told_at >= REPEATED_S:
                await _write(writer, _Word(report=now))
                told, told_at = now, clock.now()
            await anyio.sleep(LOOKED_S)


async def _write(writer: asyncio.StreamWriter, word: _Word) -> None:
    writer.write(msgspec.json.encode(word) + b"\n")
    await writer.drain()


class SupervisorLink:
    """A supervisor's end: what the worker has said last, and its answers."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._writer: asyncio.StreamWriter | None = None
        self._asked: dict[int, asyncio.Future[str]] = {}
        self._last = 0
        self.report: Report | None = None
        self.heard_at: float | None = None
        self.ready_at: float | None = None
        """When it was ready for the first time."""
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def listen(self) -> None:
        """Hear the worker until it has ended."""
        reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=MOST_BYTES)
        try:
            with suppress(OSError):
                while line := await reader.readline():
                    self._hear(msgspec.json.decode(line, type=_Word))
        finally:
            self.ended.set()
            self._writer.close()
            for asked in self._asked.values():
                asked.cancel()

    def _hear(self, word: _Word) -> None:
        if word.report is None:
            asked = self._asked.pop(word.number, None)
            if asked is not None and not asked.done():
                asked.set_result(word.metrics)
            return
        self.report, self.heard_at = word.report, clock.now()
        if word.report.started:
            self.begun.set()
        if self.ready_at is None and not word.report.hindrances and not word.report.superseded:
            self.ready_at = self.heard_at

    async def metrics(self) -> str:
        """Return the worker's scrape; nothing where it does not answer in time."""
        if self._writer is None or self._writer.is_closing():
            return ""
        self._last += 1
        number, asked = self._last, asyncio.get_running_loop().create_future()
        self._asked[number] = asked
        self._writer.write(b"%d\n" % number)
        await asyncio.wait({asked}, timeout=ASKED_S)
        self._asked.pop(number, None)
        return asked.result() if asked.done() and not asked.cancelled() else ""
