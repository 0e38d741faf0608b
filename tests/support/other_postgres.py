"""Has a test process run on another PostgreSQL than the embedded one: `-p tests.support.other_postgres`.

`OTHER_POSTGRES` names the installation and, after a colon, where its programs are in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from projectionist.ops.embedded import binaries, postgres, processes

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


_SINCE = {"--set": 16, "--locale-provider": 17, "--builtin-locale": 17}
"""Options of initdb that an older one does not know, each with a value."""


def _run(command: Sequence[str | Path], *given: Any) -> str:
    """Make a database of the same kind by the options that an older initdb has."""
    if Path(command[0]).name == "initdb":
        major, kept, options = major_of(Path(command[0])), list[str | Path](), iter(command)
        for option in options:
            if _SINCE.get(str(option), 0) > major:
                next(options)
            else:
                kept.append("--locale=C.UTF-8" if option == "--no-locale" and major < 17 else option)
        command = kept
    return _run_as_ever(command, *given)


def major_of(program: Path) -> int:
    """Return the major version of one of PostgreSQL's programs."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\(PostgreSQL\) (\d+)", said)
    assert found, said
    return int(found[1])


if os.environ.get(CHOSEN):
    _run_as_ever, processes.run = processes.run, _run  # type: ignore[assignment]
    _verify_wheel = binaries.verify
    postgres.POSTGRES_MAJOR = major_of(_bin() / "postgres")  # type: ignore[attr-defined]
    binaries.postgres_bin, binaries.postgres_copy, binaries.verify = _bin, _copy, _verify  # type: ignore[assignment]
