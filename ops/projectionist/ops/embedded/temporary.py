"""Servers for as long as a block lasts: tests, demo and bench."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from projectionist.core import own_files
from projectionist.ops.embedded.servers import Embedded

_PREFIX = "projectionist-temporary-"
_MEMORY, _DISK = Path("/dev/shm"), Path(tempfile.gettempdir())  # noqa: S108 - mkdtemp makes what lies there
_ROOM = 4 << 30


@contextmanager
def temporary(*, durable: bool, sync_always: bool = False) -> Iterator[Embedded]:
    """Run both servers in a folder that goes with them; `durable` and `sync_always` as for `Embedded`.

    A process that is killed inside leaves them running; the next call, of any process, stops and deletes them.
    """
    sweep()
    base = _DISK if durable or not _roomy() else _MEMORY
    home = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    try:
        if os.geteuid() == 0:
            home.chmod(0o711)  # the account that root lends gets through to its own folder
        with (home / "claim").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            (home / "claim").rename(home / "alive")  # under this name it is locked from the first moment
            servers = Embedded(home, durable=durable, sync_always=sync_always)
            try:
                servers.up()
                yield servers
            finally:
                servers.reset()
    finally:
        shutil.rmtree(home)


def sweep() -> None:
    """Stop the servers of a killed process: the lock on their folder went with its holder."""
    for home in (home for base in (_MEMORY, _DISK) for home in base.glob(f"{_PREFIX}*")):
        if own_files.shared(home):  # another user's, who may have laid links and FIFOs for us there
            continue
        with (
            suppress(OSError),
            os.fdopen(own_files.open_own(home / "alive", os.O_RDONLY)) as file,
        ):  # gone, or in use
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Embedded(home).reset()
            shutil.rmtree(home)


def _roomy() -> bool:
    """Return whether there is plenty of memory: making files, as a new database does, is slow on some disks."""
    return _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM
