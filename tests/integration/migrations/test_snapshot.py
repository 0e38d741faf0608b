"""The schema that the migrations add up to, as a file: a review sees what a migration changes."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from projectionist.ops.embedded import binaries

SNAPSHOT = Path(str(files("projectionist.migrations"))) / "snapshot.sql"
HEAD = "-- What all migrations together make, written by `make snapshot`. Read it; never run or edit it.\n\n"
NOISE = re.compile(r"^(--|SET |SELECT pg_catalog\.set_config|\\).*\n", re.MULTILINE)


def dumped(url: str) -> str:
    """The schema of the database at `url`, without what changes from one server or day to another."""
    options = ("--schema-only", "--no-owner", "--no-privileges", "--schema=projectionist")
    command = [str(binaries.postgres_bin() / "pg_dump"), *options, url]
    dump = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return HEAD + re.sub(r"\n{3,}", "\n\n", NOISE.sub("", dump)).strip() + "\n"


def test_the_snapshot_is_what_the_migrations_make(database: str) -> None:
    made = dumped(database)
    if os.environ.get("REGENERATE_SNAPSHOT"):
        SNAPSHOT.write_text(made, "utf-8")
    if made != SNAPSHOT.read_text("utf-8"):
        pytest.fail(
            "the migrations make another schema than snapshot.sql: run `make snapshot`, read the difference"
        )
