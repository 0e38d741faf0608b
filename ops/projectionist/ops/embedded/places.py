"""Chooses where PostgreSQL's data and programs lie, so that the account that runs it gets there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from projectionist.ops.embedded import binaries
from projectionist.ops.embedded.account import SystemAccount
from projectionist.ops.embedded.errors import EmbeddedError

STATE = Path("/var/lib/projectionist")
"""Where root keeps what its lent account could not reach inside a private project or environment."""


def outside(home: Path, state: Path) -> Path:
    """Return the folder in `state` for what cannot lie inside `home`; another one for every home of the machine."""
    return state / f"{home.parent.name}-{hashlib.blake2b(os.fsencode(home), digest_size=6).hexdigest()}"


def data(home: Path, account: SystemAccount, state: Path) -> Path:
    """Return the folder for PostgreSQL's data: where it is already, else inside `home`, else outside."""
    near, far = home / "postgres", outside(home, state) / "postgres"
    if far.exists() and not near.exists():
        return far
    if not account.lent or account.can_enter(home):
        return near
    if near.exists():
        raise EmbeddedError(
            f"{near} belongs to the account {account.name}, which cannot get there any more",
            remedy="Open the way to it again, or remove it to begin anew",
        )
    return far


def programs(account: SystemAccount, state: Path) -> Path:
    """Return the folder of PostgreSQL's programs: the installed one, or a copy where `account` cannot run that."""
    installed = binaries.postgres_bin()
    if not account.lent or account.can(installed / "initdb", "--version"):
        return installed
    make_public(state)
    copy = binaries.postgres_copy(state)
    if not account.can(copy / "initdb", "--version"):
        raise EmbeddedError(
            f"the account {account.name} can run neither {installed}/initdb nor its copy in {copy}",
            remedy="Run as a normal user, or give the URL of a PostgreSQL of your own",
        )
    return copy


def make_public(folder: Path) -> None:
    """Make `folder` and what is missing above it so that all get through; what exists stays as it is."""
    if folder.exists():
        return
    make_public(folder.parent)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
