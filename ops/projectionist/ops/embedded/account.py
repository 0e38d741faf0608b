"""Chooses the account that runs PostgreSQL: it refuses to run as root, so root lends it an unprivileged one.

No permission of any existing folder is changed. Whether the account reaches a place is found out by trying.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import msgspec

from projectionist.ops.embedded import processes
from projectionist.ops.embedded.errors import EmbeddedError

NAMES = ("projectionist", "nobody")
"""The accounts root may lend, in this order: one made for the purpose, else the one every system has."""


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
        remedy="Make one with `useradd --system projectionist`, or run as a normal user",
    )


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
