"""Has a test process run on another PostgreSQL than the embedded one: `-p tests.support.other_postgres`.

`OTHER_POSTGRES` names the installation and, after a colon, where its programs are in it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from projectionist.ops.embedded import binaries

CHOSEN = "OTHER_POSTGRES"


def _bin() -> Path:
    root, _, inside = os.environ[CHOSEN].partition(":")
    return Path(root) / inside


def _copy(under: Path) -> Path:
    """Return the programs of a copy, for the account that root lends and that cannot reach the first one."""
    root, _, inside = os.environ[CHOSEN].partition(":")
    copy = under / f"{Path(root).name}-{Path(root).stat().st_ctime_ns}"
    if not copy.exists():
        part = Path(tempfile.mkdtemp(dir=under, prefix="copy-"))
        shutil.copytree(root, part, symlinks=True, dirs_exist_ok=True)
        part.chmod(0o755)
        try:
            part.rename(copy)
        except OSError:  # another process was first
            shutil.rmtree(part)
    return copy / inside


def _verify(program: Path, wheel: str) -> None:
    """Take programs of another origin as they are, and those of wheels as ever."""
    if wheel != binaries.POSTGRES_WHEEL:
        _verify_wheel(program, wheel)


if os.environ.get(CHOSEN):
    _verify_wheel = binaries.verify
    binaries.postgres_bin, binaries.postgres_copy, binaries.verify = _bin, _copy, _verify  # type: ignore[assignment]
