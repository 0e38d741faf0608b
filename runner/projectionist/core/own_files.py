"""Files and folders that another user of this machine may have planted: told by owner and mode before they are used."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import tempfile
from pathlib import Path

from projectionist.core.errors import SettingsError


class NotOursError(SettingsError):
    """A file or folder of somebody else, which is not followed."""


def check(path: Path) -> None:
    """Raise NotOursError unless `path`, and what it links to, is ours or root's, and nobody else may change it."""
    for found in (path.lstat(), path.stat()):
        if found.st_uid not in _trusted():
            raise NotOursError(
                f"{path} belongs to {_name(found.st_uid)}, and is not followed",
                remedy=f"Run as {_name(found.st_uid)}, or make one of your own in a folder nearer to you",
            )
    if _is_open(path.stat()):
        raise NotOursError(
            f"{path} can be changed by others, and is not followed", remedy=f"Run `chmod go-w {path}`"
        )


def is_followed(folder: Path) -> bool:
    """Return whether the owner of a folder is one whose files are followed."""
    return folder.stat().st_uid in _trusted()


def shared(folder: Path) -> str:
    """Return why others may have put links and FIFOs for us into a folder; "" where it is ours alone."""
    try:
        found = folder.lstat()
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be changed by others" if found.st_mode & 0o022 else ""


def open_own(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file that is no link and no FIFO, nor anything else but a file; OSError for those. Never blocks."""
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise FileNotFoundError(0, "not a file", str(path))
    return number


def read_own(path: Path) -> bytes:
    """Return what a file holds; OSError where it is a link or no file."""
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        return file.read()


def replace(path: Path, content: bytes) -> None:
    """Write a file for us alone in one step: a reader sees the old one or the new one, and no link is followed."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).rename(path)


def is_readable_by_all(path: Path) -> bool:
    """Return whether every user of the machine may read it."""
    return bool(path.stat().st_mode & stat.S_IROTH)


def _trusted() -> set[int]:
    """Us and root; for root also whoever called it by sudo, whose folder it works in."""
    called = os.environ.get("SUDO_UID", "")
    return {os.geteuid(), 0, *([int(called)] if os.geteuid() == 0 and called.isdecimal() else [])}


def _is_open(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_own_group(found)


def _is_own_group(found: os.stat_result) -> bool:
    """Return whether a group is its owner's alone, as most systems make one for each user."""
    try:
        group, owner = grp.getgrgid(found.st_gid), pwd.getpwuid(found.st_uid)
    except KeyError:
        return False
    return (
        group.gr_gid == owner.pw_gid
        and set(group.gr_mem) <= {owner.pw_name}
        and group.gr_name == owner.pw_name
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
