"""The folder the embedded servers live in: where it is, who works on it now, which ports were used last."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from projectionist.core import own_files
from projectionist.ops.embedded.errors import EmbeddedError
from projectionist.ops.embedded.processes import until


def make(home: Path) -> None:
    """Make the folder, which git ignores. Root's lets the lent account through, to a folder of its own."""
    if not home.exists():
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o711 if os.geteuid() == 0 else 0o700)
    check(home)
    own_files.replace(home / ".gitignore", b"*\n")


def check(home: Path) -> None:
    """Refuse a folder in which somebody else may have put links, which we would write through."""
    if why := own_files.shared(home):
        ours = (
            f"Run `chmod go-w {home}`" if "changed" in why else "Run as that user, or remove it as that user"
        )
        raise EmbeddedError(f"{home} {why}", remedy=ours)


@contextmanager
def locked(home: Path, seconds: float = 60) -> Iterator[None]:
    """Hold `home` for one act. The lock goes with its holder, however that ends."""
    with os.fdopen(own_files.open_own(home / "lock", os.O_RDWR | os.O_CREAT), "a") as file:
        if not until(lambda: _taken(file.fileno()), seconds):
            problem = f"another process has been working on {home} for {seconds:.0f} s"
            raise EmbeddedError(problem, remedy="Wait for it, or end it")
        yield


@contextmanager
def ours(home: Path) -> Iterator[None]:
    """Turn what another user's ownership forbids inside into an error that says so."""
    try:
        yield
    except PermissionError as problem:
        raise EmbeddedError(
            f"{problem.filename or 'the server'} under {home} belongs to another user",
            remedy="Run as that user, or remove the folder as that user after `projectionist dev reset`",
        ) from problem
    except OSError as problem:
        if problem.errno != errno.ELOOP:
            raise
        raise EmbeddedError(
            f"{problem.filename} is a link, and nothing is written through one", remedy="Remove it"
        ) from problem


def read_ports(home: Path) -> dict[str, int]:
    """Return the port each server had last or was about to take; empty if there is no note, or not a whole one."""
    try:
        return msgspec.json.decode(own_files.read_own(home / "ports.json"), type=dict[str, int])
    except (OSError, msgspec.DecodeError):
        return {}


def write_ports(home: Path, ports: dict[str, int]) -> None:
    """Note the ports; a reader sees the old note or the new one."""
    own_files.replace(home / "ports.json", msgspec.json.encode(ports))


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
