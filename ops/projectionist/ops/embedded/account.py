"""Chooses the account that runs PostgreSQL: it refuses to run as root, so root lends it an unprivileged one.

No permission of any existing folder is changed. Whether the account reaches a place is found out by trying.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from projectionist.ops.embedded import processes
from projectionist.ops.embedded.errors import EmbeddedError

OWN = "projectionist"
SHARED = "nobody"
"""Whatever else runs under it could read the superuser's password and run programs: for servers that go at once."""
NAMES = (OWN, SHARED)
"""The accounts root may lend, in this order: one made for the purpose, else the one every system has."""

_MAKERS = (
    (
        "useradd",
        "--system",
        "--no-create-home",
        "--home-dir",
        "/nonexistent",
        "--shell",
        "/usr/sbin/nologin",
        OWN,
    ),
    ("adduser", "-S", "-D", "-H", "-h", "/nonexistent", "-s", "/sbin/nologin", OWN),
)
"""The command that makes the account: of most systems, and of those that have BusyBox."""


class SystemAccount(msgspec.Struct, frozen=True):
    """The account that runs PostgreSQL and owns its data folder."""

    name: str
    uid: int
    gid: int

    @property
    def lent(self) -> bool:
        """Return whether the account is another one than our own."""
        return self.uid != os.geteuid()

    def identity(self) -> processes.Identity:
        """Return what to pass to `subprocess` for a child under this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.lent else {}

    def can(self, *command: str | Path) -> bool:
        """Try it: does `command` succeed under this account?"""
        try:
            processes.run(command, self.identity())
        except (OSError, subprocess.CalledProcessError):  # it may not execute it, or the answer is no
            return False
        return True

    def can_enter(self, folder: Path) -> bool:
        """Return whether this account gets through `folder` to what lies in it."""
        return self.can("test", "-x", folder)

    def own(self, folder: Path) -> None:
        """Give a folder that we have made to this account, for it alone."""
        if self.lent:
            os.chown(folder, self.uid, self.gid)
        folder.chmod(0o700)


def account_for(data: Path) -> SystemAccount:
    """Return the account for PostgreSQL: ourselves; for root, the owner of `data`, else the account root lends."""
    if os.geteuid() != 0:
        return _account_of(os.geteuid())
    if data.exists() and data.stat().st_uid != 0:
        return _account_of(data.stat().st_uid)
    for name in NAMES:
        try:
            return _account(pwd.getpwnam(name))
        except KeyError:
            continue
    raise EmbeddedError(
        "PostgreSQL does not run as root, and this system has no account to lend it",
        remedy=f"Make one with `useradd --system {OWN}`, or run as a normal user",
    )


def ensure_own(data: Iterable[Path]) -> list[str]:
    """Have root's data, which lies in one of these folders or will, belong to an account that runs nothing else.

    Makes the account where there is none, and returns that it did.
    """
    if os.geteuid() != 0:
        return []
    owners = [folder.stat().st_uid for folder in data if folder.exists()]
    if any(_has_name(SHARED, uid) for uid in owners):
        raise EmbeddedError(
            f"PostgreSQL's data belongs to {SHARED}, which other programs run as too: they could read it all",
            remedy="`projectionist dev reset` deletes it; the next `dev up` has an account of its own",
        )
    if owners or _exists(OWN):
        return []
    for command in _MAKERS:
        if shutil.which(command[0]):
            with suppress(
                OSError, subprocess.CalledProcessError
            ):  # it may exist by now, made by another `dev up`
                processes.run(command)
            if processes.until(lambda: _exists(OWN), seconds=2):
                return [f"root may not run PostgreSQL: the account {OWN}, made for it, does"]
    raise EmbeddedError(
        f"PostgreSQL does not run as root, and the account {OWN} cannot be made here",
        remedy=f"Make it (`useradd --system {OWN}`), run as a normal user, or set the URL of a PostgreSQL of your own",
    )


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _has_name(name: str, uid: int) -> bool:
    return _exists(name) and pwd.getpwnam(name).pw_uid == uid


def _account_of(uid: int) -> SystemAccount:
    try:
        return _account(pwd.getpwuid(uid))
    except KeyError:
        raise EmbeddedError(
            f"PostgreSQL needs the name of the user it runs as, and user {uid} has none on this system",
            remedy="Add the user to /etc/passwd, or give the URL of a PostgreSQL of your own",
        ) from None


def _account(entry: pwd.struct_passwd) -> SystemAccount:
    return SystemAccount(entry.pw_name, entry.pw_uid, entry.pw_gid)
