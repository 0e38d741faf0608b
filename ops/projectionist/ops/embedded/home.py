"""The folder the embedded servers live in: where it is, who works on it now, which ports were used last."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from projectionist.ops.embedded.errors import EmbeddedError
from projectionist.ops.embedded.processes import until


def make(home: Path) -> None:
    """Make the folder, which git ignores. Root's lets the lent account through, to a folder of its own."""
    if not home.exists():
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o711 if os.geteuid() == 0 else 0o700)
    (home / ".gitignore").write_text("*\n", "utf-8")


@contextmanager
def locked(home: Path, seconds: float = 60) -> Iterator[None]:
    """Hold `home` for one act. The lock goes with its holder, however that ends."""
    with (home / "lock").open("a") as file:
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


def read_ports(home: Path) -> dict[str, int]:
    """Return the port each server had last or was about to take; empty if there is no note, or not a whole one."""
    try:
        return msgspec.json.decode((home / "ports.json").read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


def write_ports(home: Path, ports: dict[str, int]) -> None:
    """Note the ports; a reader sees the old note or the new one."""
    with tempfile.NamedTemporaryFile(dir=home, delete=False) as file:
        file.write(msgspec.json.encode(ports))
    Path(file.name).rename(home / "ports.json")


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
