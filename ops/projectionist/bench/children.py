"""The processes of a benchmark: each plays in one scene, and is asked to end when it has been seen to be done."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from projectionist.bench.meters import family_s
from projectionist.bench.scene import Scene, environment
from projectionist.core.errors import ProjectionistError

if TYPE_CHECKING:
    from resource import struct_rusage

    from projectionist.core.settings.settings import Settings

LOOK_S = 0.05
GRACE_S = 20
_SAID_BYTES = 4000
_STATUS = Path("/proc/self/status")


class BenchError(ProjectionistError):
    """A benchmark cannot be run, or a contender did not do its work."""


class Child:
    """A running process of a scene, and what it has used once it has ended."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
        self._name = name
        self._process = process
        self._said = said
        self._used: struct_rusage | None = None
        self._peak_kb = 0

    def check(self) -> None:
        """Raise BenchError if it has ended."""
        if self._ended():
            raise BenchError(f"{self._name} ended with {self._process.returncode}: {self.said()}")

    @property
    def cpu_s(self) -> float:
        """Return processor time of the whole process, its start included."""
        return self._used.ru_utime + self._used.ru_stime if self._used else 0

    @property
    def cpu_so_far_s(self) -> float:
        """Return processor time up to now, of the children that it has too; 0 where that is not told."""
        return family_s(self._process.pid)

    @property
    def rss_mb(self) -> float:
        """Return its memory at its largest, as last looked at while it ran."""
        return self._peak_kb / (1 << 10)

    async def over(self, seconds: float) -> int:
        """Wait until it has ended by itself; its exit code."""
        deadline = time.monotonic() + seconds
        while not self._ended():
            if time.monotonic() > deadline:
                raise BenchError(f"{self._name} still runs after {seconds:.0f} s: {self.said()}")
            await asyncio.sleep(LOOK_S)
        code = self._process.returncode
        assert code is not None, "it has ended"
        return code

    async def end(self) -> None:
        """Ask it to end, and wait until it has."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + GRACE_S
            if not self._ended():
                os.kill(self._process.pid, number)
            while not self._ended() and time.monotonic() < deadline:  # noqa: ASYNC110  another process ends
                await asyncio.sleep(LOOK_S)

    def _ended(self) -> bool:
        if self._used is None:
            self._peak_kb = max(self._peak_kb, _peak_kb(self._process.pid))
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._used = used
                if not _STATUS.exists():
                    self._peak_kb = used.ru_maxrss >> 10  # told in bytes where there is no /proc
        return self._used is not None

    def said(self) -> str:
        """Return the end of what it has written."""
        self._said.seek(0)
        return self._said.read()[-_SAID_BYTES:].decode("utf-8", "replace").strip()


def _peak_kb(pid: int) -> int:
    """Return the most memory that a process has had since its program began; 0 where that is not told or it has ended.
    `ru_maxrss` of Linux counts the memory of whoever started the process, which a test run has hundreds of MB of."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


@asynccontextmanager
async def running(
    settings: Settings,
    scene: Scene,
    arguments: Sequence[str],
    extra: Mapping[str, str] | None = None,
    name: str | None = None,
) -> AsyncIterator[Child]:
    """Run `python ARGUMENTS` in the scene, away from the settings of where we are, until the end of the block.
    `extra` is added to its environment, `name` is what it is called where it fails: else its last argument."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(  # noqa: S603, ASYNC220  our own modules; it takes milliseconds
            [sys.executable, *arguments],
            env={**environment(settings, scene), **(extra or {})},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        child = Child(name or arguments[-1], process, said)
        try:
            yield child
        finally:
            await child.end()


async def finished(
    settings: Settings, scene: Scene, arguments: Sequence[str], extra: Mapping[str, str] | None = None
) -> None:
    """Run `python ARGUMENTS` in the scene to its end; raises BenchError if that is not a good one."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**environment(settings, scene), **(extra or {})},
        cwd=tempfile.gettempdir(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    if process.returncode:
        text = said[-_SAID_BYTES:].decode("utf-8", "replace").strip()
        raise BenchError(f"{arguments[-1]} ended with {process.returncode}: {text}")
