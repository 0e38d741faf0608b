"""The stress runner runs all its rounds, and tells of each that failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

FAILS_IN_THE_FIRST_ROUND = """
from pathlib import Path

def test_it():
    rounds = Path(__file__).with_name("rounds")
    with rounds.open("a") as file:
        file.write("x")
    assert rounds.read_text() != "x"
"""


def test_a_failed_round_fails_the_run_and_the_rounds_after_it_are_run(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(FAILS_IN_THE_FIRST_ROUND)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.stress", "2", "-q", "-c", str(tmp_path / "pytest.ini")],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "stress: 2 rounds, 1 failed" in ended.stdout, ended.stdout + ended.stderr
    assert (tmp_path / "rounds").read_text() == "xx"
