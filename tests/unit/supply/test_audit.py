"""The audit of what is locked: known vulnerabilities fail it, and a closed network does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supply import audit

GOOD = {"name": "good", "version": "1.0", "vulns": []}
BAD = {"name": "bad", "version": "2.0", "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}]}
UNKNOWN = {"name": "bad", "skip_reason": "not found"}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "requirements.lock"
    file.write_text("".join(f"{name} --hash=sha256:{'a' * 64}\n" for name in ("good==1.0", "bad==2.0")))
    return file


@pytest.mark.parametrize(
    ("second", "code", "said"),
    [
        ([GOOD, BAD], 1, "bad 2.0: CVE-1, mended in 2.1"),
        ([GOOD, {**BAD, "vulns": []}], 0, "2 packages, 0 vulnerable, 0 unknown"),
        ([GOOD, UNKNOWN], 0, "1 packages, 0 vulnerable, 1 unknown"),
        (None, 0, "NOT DONE"),
    ],
)
def test_what_is_known_decides(
    lock: Path, capsys: pytest.CaptureFixture[str], second: list[Any] | None, code: int, said: str
) -> None:
    asked, answers = [], [[GOOD], second]

    def ask(file: Path, _seconds: float) -> list[Any] | None:
        asked.append(file.read_text("utf-8").split())
        return answers.pop(0)

    assert audit.main(lock, ask) == code
    assert asked == [["good==1.0"], ["good==1.0", "bad==2.0"]]
    shown = capsys.readouterr()
    assert said in shown.out + shown.err


@pytest.mark.parametrize("first", [None, [], [UNKNOWN]])
def test_a_closed_network_is_asked_once_and_fails_nothing(
    lock: Path, capsys: pytest.CaptureFixture[str], first: list[Any] | None
) -> None:
    answers = [first]
    assert audit.main(lock, lambda _file, _seconds: answers.pop()) == 0
    assert "NOT DONE" in capsys.readouterr().err


def test_an_audit_that_takes_too_long_is_given_up(lock: Path) -> None:
    assert audit.ask_pip_audit(lock, 0.01) is None
