"""Server processes that outlive us: start and wait, recognise by pid and command line, stop, find a port."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from projectionist.core import own_files
from projectionist.core.project_servers import runs
from projectionist.ops.embedded.errors import EmbeddedError, StartError

HOST = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""None of those that systems give to outgoing connections: one of these would take the port of a server that was killed
and is about to come back, and its clients would look for it there for ever."""


class Identity(TypedDict, total=False):
    """The keywords of `subprocess` that decide who a child is. Without any, it is who we are."""

    user: int
    group: int
    extra_groups: list[int]


_started: dict[int, subprocess.Popen[bytes]] = {}
"""Children of this process, kept so that a dead one is reaped and a living one is left alone at exit."""


def launch(
    command: Sequence[str | Path],
    *,
    log: Path,
    ready: Callable[[int], bool],
    seconds: float,
    identity: Identity,
    environment: Mapping[str, str],
) -> int:
    """Start a server in a session of its own and return its pid once `ready(pid)`.

    Raises `StartError` if it ends first; one that is not ready in time is killed.
    """
    _reap()
    with os.fdopen(own_files.open_own(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as lines:
        os.fchmod(lines.fileno(), 0o600)
        begin = lines.tell()
        process = subprocess.Popen(  # noqa: S603 - our own programs with our own arguments
            command,
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=lines,
            cwd="/",
            start_new_session=True,
            env=environment,
            **identity,
        )
    _started[process.pid] = process
    until(lambda: process.poll() is not None or ready(process.pid), seconds)
    if process.poll() is None and ready(process.pid):
        return process.pid
    process.kill()
    process.wait()
    raise StartError(log.read_bytes()[begin:].decode("utf-8", "replace").strip())


def end(pid: int, mark: str, signals: Sequence[signal.Signals], seconds: float) -> None:
    """Send one signal after the other, each with `seconds` to work, until the process `runs` no more."""
    for number in signals:
        if not runs(pid, mark):
            break
        os.kill(pid, number)
        until(lambda: not runs(pid, mark), seconds)
    if runs(pid, mark):
        raise EmbeddedError(f"process {pid} does not end", remedy=f"Look at it, then `kill -9 {pid}`")
    if (child := _started.get(pid)) is not None:  # it has lost its command line, and may be about to end
        until(lambda: child.poll() is not None, seconds)
    _reap()


def run(
    command: Sequence[str | Path],
    identity: Identity | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run one of our programs to its end and return what it says; `CalledProcessError` if it fails."""
    return subprocess.run(  # noqa: S603 - no shell, our own words
        command,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
        env=environment,
        **(identity or {}),
    ).stdout


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for `condition`; False if it did not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_free(port: int) -> bool:
    """Return whether a server could listen on `port` of the loopback interface now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port that was free a moment ago. Who starts a server on it tries again if it has been lost since."""
    chosen = secrets.SystemRandom().sample(PORTS, 200)
    return next(filter(is_free, chosen), 0) or _any_port()


def _any_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def await_ending() -> None:
    """Wait for servers of this process that were killed: a process loses its command line first, its port later."""
    until(lambda: not any(_is_ending(pid) for pid in tuple(_started)), seconds=30)
    _reap()


def _is_ending(pid: int) -> bool:
    if _started[pid].poll() is not None:
        return False
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _reap() -> None:
    for pid, child in tuple(_started.items()):
        if child.poll() is not None:
            del _started[pid]
