"""The suite ends, whatever a test does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tests.support.waiting import HANG_S

ROOT = Path(__file__).parents[3]

HANGS = """\
    import threading, time, pytest

    limited = pytest.mark.deadline(1)

    def test_first(): "The first test of a session waits for imports."

    def hang():
        threading.Event().wait()

    def hang_on():
        while True:
            try:
                time.sleep(60)
            except BaseException:
                pass
"""


def session(folder: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """These tests in a pytest of their own."""
    (folder / "test_it.py").write_text(dedent(HANGS) + dedent(tests))
    options = ("-q", "-p", "tests.support.deadlines", "--rootdir", ".", *arguments)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder,
        env={
            **os.environ,
            "PYTEST_ADDOPTS": "",  # those of this session are not meant for that one
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("phase", "tests"),
    [
        ("call", "@limited\ndef test_it(): hang()"),
        ("setup", "@pytest.fixture\ndef it(): hang()\n@limited\ndef test_it(it): pass"),
        (
            "teardown",
            "@pytest.fixture\ndef it():\n    yield\n    hang()\n@limited\ndef test_it(it): assert False",
        ),
    ],
)
def test_what_hangs_in_any_phase_is_interrupted_and_the_next_test_runs(
    tmp_path: Path, phase: str, tests: str
) -> None:
    ended = session(tmp_path, f"{tests}\ndef test_next(): pass")
    assert f"the {phase} did not end within 1 s" in ended.stdout
    assert f"the {phase} has run for 1 s" in ended.stderr
    assert "2 passed" in ended.stdout


def test_a_test_of_many_examples_has_its_time_for_each_of_them(tmp_path: Path) -> None:
    many = """
        import time
        from tests.support.deadlines import begin_anew
        @limited
        def test_it():
            for _ in range(12):
                begin_anew()
                time.sleep(0.1)
        @limited
        def test_one_that_hangs():
            begin_anew()
            hang()
    """
    ended = session(tmp_path, many)
    assert "1 failed, 2 passed" in ended.stdout
    assert "the call did not end within 1 s" in ended.stdout


def test_what_cannot_be_interrupted_ends_the_process_which_says_where_it_was(tmp_path: Path) -> None:
    ended = session(tmp_path, "@limited\ndef test_it(): hang_on()")
    assert ended.returncode == 1
    assert "Timeout (0:00:03" in ended.stderr
    assert "in hang_on" in ended.stderr
