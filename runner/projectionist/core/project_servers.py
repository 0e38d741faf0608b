"""The servers that `projectionist dev up` has started for this project: noted in its folder, found by all processes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

HOME = ".projectionist"
_NOTE = "servers.json"
_PROC = Path("/proc/self/cmdline")


class Server(msgspec.Struct, frozen=True):
    """Where one of them listens, and how its process is recognised."""

    url: str
    pid: int
    mark: str


def find(start: Path, file: str) -> Path:
    """Return the home for whoever works in `start`: beside the nearest settings `file` or home upwards, else there."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / file).is_file() or (folder / HOME).is_dir():
            return folder / HOME
    return start / HOME


def note(home: Path, servers: Mapping[str, Server]) -> None:
    """Write down what runs; a reader sees the old note or the new one."""
    with tempfile.NamedTemporaryFile(dir=home, delete=False) as file:
        file.write(msgspec.json.encode(servers))
    Path(file.name).rename(home / _NOTE)


def running(home: Path) -> dict[str, str]:
    """Return the URL of each that runs now, by its name."""
    try:
        noted = msgspec.json.decode((home / _NOTE).read_bytes(), type=dict[str, Server])
    except (OSError, msgspec.DecodeError):
        return {}
    return {name: server.url for name, server in noted.items() if runs(server.pid, server.mark)}


def runs(pid: int, mark: str) -> bool:
    """Return whether `pid` lives and has the argument `mark`: a pid alone may have passed to a stranger."""
    if pid <= 0:
        return False
    if _PROC.exists():
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()  # empty for a zombie
        except OSError:  # it has gone
            return False
        return os.fsencode(mark) in arguments.split(b"\0")
    command = ["ps", "-ww", "-p", str(pid), "-o", "command="]
    found = subprocess.run(command, cwd="/", capture_output=True, check=False, text=True)  # noqa: S603 - our own words
    return mark in found.stdout
