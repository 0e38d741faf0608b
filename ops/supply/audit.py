"""`make audit`: ask pip-audit about requirements.lock; a closed network is told, and fails nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from supply.lock_file import pins

FIRST_S, ALL_S = 15.0, 120.0
"""How long one package, and all, may take."""

_COMMAND = ("-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner=off", "--format=json")
Answer = dict[str, Any]
Ask = Callable[[Path, float], list[Answer] | None]
"""A file of requirements and seconds to what is known of each; None where nobody answers."""


def main(path: Path, ask: Ask) -> int:
    """Audit the lock: exit code 1 for a known vulnerability, 0 for none, and 0 with a warning where nobody knows."""
    lines = [f"{pin.name}=={pin.version}" for pin in pins(path.read_text("utf-8"))]
    # One package first: where the data cannot be had, a hundred questions are a hundred waits.
    answers = _asked(lines[:1], ask, FIRST_S)
    if answers and not any("skip_reason" in one for one in answers):
        answers = _asked(lines, ask, ALL_S)
    known = [one for one in answers or () if "skip_reason" not in one]
    if not known:
        sys.stderr.write("audit: NOT DONE, the data about vulnerabilities cannot be reached from here\n")
        return 0
    hit = {f"{one['name']} {one['version']}": one["vulns"] for one in known if one["vulns"]}
    for package, troubles in hit.items():
        for trouble in troubles:
            mended = ", ".join(trouble["fix_versions"]) or "no version yet"
            sys.stderr.write(f"{package}: {trouble['id']}, mended in {mended}\n")
    skipped = len(lines) - len(known)
    sys.stdout.write(f"audit: {len(known)} packages, {len(hit)} vulnerable, {skipped} unknown to the data\n")
    return 1 if hit else 0


def _asked(lines: Sequence[str], ask: Ask, seconds: float) -> list[Answer] | None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text("\n".join(lines) + "\n", "utf-8")
        return ask(file, seconds)


def ask_pip_audit(requirements: Path, seconds: float) -> list[Answer] | None:
    """Return what is known of each package; None where the data cannot be reached in time."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, *_COMMAND, "--timeout=5", "-r", requirements],
            capture_output=True,
            check=False,
            text=True,
            timeout=seconds,
        )
        answers: list[Answer] = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError):
        return None
    return answers


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), ask_pip_audit))
