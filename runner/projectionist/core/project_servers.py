"""The servers that `projectionist dev up` has started for this project: noted in its folder, found by all processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from projectionist.core import own_files

HOME = ".projectionist"
_NOTE = "servers.json"
_PROC = Path("/proc/self/cmdline")


class Server(msgspec.Struct, frozen=True):
    """Where one of them listens, and how its process is recognised."""

    url: str
    pid: int
    mark: str


def find(start: Path, file: str) -> Path:
    """Return the home for whoever works in `start`: beside the nearest settings `file` or home upwards, else there.

    The walk ends at a folder of another user. What lies there, or belongs to another user wherever it lies, raises
    NotOursError: it would say which servers we use, and which code we import.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        settings, home = folder / file, folder / HOME
        found = [one for one, is_there in ((settings, settings.is_file()), (home, home.is_dir())) if is_there]
        followed = own_files.is_followed(folder)
        for one in found if followed else [folder, *found] if found else ():
            own_files.check(one)
        if found:
            return folder / HOME
        if not followed:
            break
    return start / HOME


def note(home: Path, servers: Mapping[str, Server]) -> None:
    """Write down what runs; a reader sees the old note or the new one."""
    own_files.replace(home / _NOTE, msgspec.json.encode(servers))


def running(home: Path) -> dict[str, str]:
    """Return the URL of each that runs now, by its name."""
    try:
        noted = msgspec.json.decode(own_files.read_own(home / _NOTE), type=dict[str, Server])
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
