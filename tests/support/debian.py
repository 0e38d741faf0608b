"""What `make test` brings from Debian's packages, for tests that stand on other people's programs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

_HERE = Path(sys.prefix) / "debian"


def program(name: str) -> Path:
    """A program, the machine's own or unpacked from its package; without either the test is left out."""
    found = shutil.which(name, path=f"{_HERE}/usr/sbin:{_HERE}/usr/bin") or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here: `make test` unpacks it where Debian's packages can be had")
    return Path(found)


def libraries() -> list[Path]:
    """The folders of the libraries that were unpacked."""
    return [folder for folder in (_HERE / "usr/lib").glob("*-linux-gnu*") if folder.is_dir()]


def library(name: str) -> Path:
    """A library that was unpacked or installed; without it the test is left out."""
    for folder in (*libraries(), *Path("/usr/lib").glob("*-linux-gnu*")):
        for path in folder.glob(name):
            return path
    pytest.skip(f"{name} is not here: `make test` unpacks it where Debian's packages can be had")
