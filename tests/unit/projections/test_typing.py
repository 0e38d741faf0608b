"""What users write passes mypy strict, and what they must not write does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[3]
SHOP = Path(__file__).with_name("shop.py")
USER_CODE = Path(__file__).with_name("user_code.py.txt").read_text("utf-8")
ERRORS = {at for at, line in enumerate(USER_CODE.splitlines(), 1) if line.endswith("# error")}

WRONG = """
OrderPlaced(order_id=7, customer="c", email="e", total_cents=1)  # E: arg-type
OrderSummary()  # E: call-arg
OrderSummary(order_id="o-1").status.missing  # E: attr-defined
OrderSummary(order_id="o-1").total_cents = "1"  # E: assignment
on(int)  # E: type-var
Receipt(to="a")  # E: call-arg
upcast("a", schema="1")  # E: arg-type
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def checked(path: Path, cache: Path) -> list[str]:
    report, trouble, _ = api.run(
        ["--strict", "--config-file=", f"--cache-dir={cache}", "--no-error-summary", str(path)]
    )
    assert trouble == ""
    return report.splitlines()


def test_a_shop_as_a_user_writes_it_is_typed(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_text(SHOP.read_text("utf-8"), "utf-8")
    assert checked(path, cache) == []


def test_what_cannot_be_is_told_before_it_runs(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "wrong.py"
    source = SHOP.read_text("utf-8").replace("    absent,\n", "    absent,\n    upcast,\n") + WRONG
    path.write_text(source, "utf-8")
    wanted = {
        (number, line.partition("# E: ")[2])
        for number, line in enumerate(source.splitlines(), 1)
        if "# E: " in line
    }
    found = {(int(line.split(":")[1]), line.rpartition("[")[2].rstrip("]")) for line in checked(path, cache)}
    assert found == wanted


@pytest.fixture
def user_code(tmp_path: Path) -> Path:
    path = tmp_path / "user_code.py"
    path.write_text(USER_CODE, "utf-8")
    return path


def test_mypy_finds_every_error_of_user_code_and_no_other(user_code: Path, cache: Path) -> None:
    found = [line for line in checked(user_code, cache) if ": error: " in line]
    assert {int(line.split(":")[1]) for line in found} == ERRORS, "\n".join(found)


def test_pyright_finds_every_error_of_user_code_and_no_other(user_code: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        str(user_code),
    ]
    said = subprocess.run(command, check=False, capture_output=True, text=True, cwd=user_code.parent)
    found = [one for one in json.loads(said.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    assert {one["range"]["start"]["line"] + 1 for one in found} == ERRORS, found
