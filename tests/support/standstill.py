"""Make a process stand still as on a machine that hangs, and know that it does."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import HANG_S

from projectionist.ops.embedded.processes import until


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """Have a process do nothing inside the block: the signal alone says when it is sent, not when it is obeyed."""
    os.kill(pid, signal.SIGSTOP)
    try:
        assert until(lambda: stands_still(pid), HANG_S), f"process {pid} goes on"
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def stands_still(pid: int) -> bool:
    """Return whether all threads of a process are stopped: one that has not had its turn yet may still answer."""
    threads = Path(f"/proc/{pid}/task")
    if threads.exists():
        try:
            stats = [(one / "stat").read_text() for one in threads.iterdir()]
        except OSError:  # a thread has just ended
            return False
        return all(stat.rpartition(") ")[2][0] == "T" for stat in stats)
    said = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, check=True, text=True)
    return said.stdout.strip().startswith("T")
