"""Reads requirements.lock: name, version, marker and hashes of each package."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PIN = re.compile(
    r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;]+)(?: ; ([^\\]+?))?((?: --hash=sha256:[0-9a-f]{64})+)"
)


@dataclass(frozen=True)
class Pin:
    """One package, as it is installed. `marker` is empty where it is installed everywhere."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def pins(text: str) -> list[Pin]:
    """Return the packages of a lock; ValueError names a line that is none with a version and hashes."""
    found = []
    for line in re.sub(r" *\\\n *", " ", text).splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = _PIN.fullmatch(line.rstrip())
        if parts is None:
            raise ValueError(f"not a package by version and hash: {line[:120]}")
        hashes = tuple(re.findall(r"sha256:([0-9a-f]{64})", parts[4]))
        found.append(Pin(parts[1].lower(), parts[2], (parts[3] or "").strip(), hashes))
    return found
