"""Servers whose PostgreSQL lives by a clock that the test sets: that of another machine, after a failover."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from tests.support import debian
from tests.support.servers import Servers


class Clock:
    """How far PostgreSQL's clock is from the machine's."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def set(self, seconds: int) -> None:
        """Have it differ by so many seconds from now on."""
        part = self._file.with_suffix(".part")
        part.write_text(f"{seconds:+d}\n", "utf-8")
        part.chmod(0o644)
        part.replace(self._file)


@contextmanager
def clocked() -> Iterator[tuple[Servers, Clock]]:
    """Servers of their own, and the clock of their PostgreSQL."""
    library = debian.library("faketime/libfaketimeMT.so.1")
    folder = Path(tempfile.mkdtemp(prefix="clock-"))
    try:
        folder.chmod(0o755)  # PostgreSQL's account reads both
        copy = Path(shutil.copy(library, folder))
        clock = Clock(folder / "offset")
        preloaded = {
            "LD_PRELOAD": str(copy),
            "FAKETIME_TIMESTAMP_FILE": str(folder / "offset"),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        servers = Servers()
        with mock.patch.dict(os.environ, preloaded):
            servers.__enter__()
        try:
            yield servers, clock
        finally:
            servers.__exit__(None, None, None)
    finally:
        shutil.rmtree(folder)
