"""Run a selection of tests again and again while other processes keep every core busy.

`python -m tests.support.stress TIMES [pytest arguments]`, or `make stress`. A test that fails here depends on how
soon something happens: that is a defect of the test or of the product. All rounds are run, whatever one of them says.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# Ends with its parent, however that ends: it looks every hundred thousand steps.
_HOG = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


def main(arguments: Sequence[str]) -> int:
    """Run all rounds, print how each ended, and return 1 if one of them failed."""
    times, *selection = arguments
    with cores_kept_busy():
        codes = [_round(number, selection) for number in range(1, int(times) + 1)]
    failed = sum(code != 0 for code in codes)
    _tell(f"{len(codes)} rounds, {failed} failed")
    return 1 if failed else 0


@contextmanager
def cores_kept_busy() -> Iterator[None]:
    """Keep a process that does nothing but reckon on each core."""
    hogs = [subprocess.Popen([sys.executable, "-c", _HOG]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def _round(number: int, selection: Sequence[str]) -> int:
    _tell(f"round {number}")
    return subprocess.run([sys.executable, "-m", "pytest", *selection], check=False).returncode


def _tell(text: str) -> None:
    sys.stdout.write(f"stress: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
