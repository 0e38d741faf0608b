"""Says what a run was made with: commit, versions, machine. For pages that runs write."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime

from tests.support.process import ROOT

from projectionist.ops.embedded import binaries


def commit() -> str:
    """Return the commit that is checked out."""
    return said("git", "-C", str(ROOT), "rev-parse", "HEAD")


def today() -> str:
    """Return the day, for people."""
    return f"{datetime.now(UTC):%d %B %Y}"


def servers() -> str:
    """Return the servers with their versions."""
    postgres = said(str(binaries.postgres_bin() / "postgres"), "--version").split()[-1]
    nats = said(str(binaries.nats_server()), "--version").split()[-1].removeprefix("v")
    return f"PostgreSQL {postgres}, nats-server {nats}"


def python() -> str:
    """Return the version of Python."""
    return f"Python {platform.python_version()}"


def machine() -> str:
    """Return how much of a machine there is, and how busy it has been in the last minutes."""
    return f"{os.cpu_count()} cores, load average in the end {os.getloadavg()[1]:.1f}"


def said(*command: str) -> str:
    """Return what a program writes."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
