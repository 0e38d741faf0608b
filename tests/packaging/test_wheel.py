"""What an installation adds: one import name, typed, in nobody's way."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from tests.support.installed import OPTIONS, ROOT, built

SOURCE_ROOTS = ("runner", "projections", "outbox", "migrations", "ops")
PARTS = {
    part.name
    for root in SOURCE_ROOTS
    for part in (ROOT / root / "projectionist").iterdir()
    if (part / "__init__.py").is_file()
}


class Environment:
    """A virtual environment with nothing in it but one of our wheels."""

    def __init__(self, folder: Path, *, editable: bool) -> None:
        self.wheel = built(folder / "dist", editable=editable)
        self._home = folder / "venv"
        venv.create(self._home, with_pip=False)
        self.before = self._names()
        pip = (sys.executable, "-m", "pip", "--python", str(self._python))
        subprocess.run([*pip, "install", *OPTIONS, str(self.wheel)], check=True)
        self.added = {name for name in self._names() - self.before if not name.endswith(".dist-info")}

    def run(self, code: str, folder: Path) -> str:
        """What `code` prints, run in `folder` where our dependencies can be found, our own sources not."""
        env = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
        command = [str(self._python), "-W", "error", "-c", code]
        done = subprocess.run(command, check=True, cwd=folder, env=env, capture_output=True, text=True)
        return done.stdout

    @property
    def _python(self) -> Path:
        return self._home / "bin" / "python"

    def _names(self) -> set[str]:
        return {entry.name for entry in next(self._home.glob("lib/python*/site-packages")).iterdir()}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("wheel"), editable=False)


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("editable"), editable=True)


def test_no_source_root_is_a_package_above_its_part() -> None:
    assert [root for root in SOURCE_ROOTS if (ROOT / root / "__init__.py").exists()] == []
    assert [root for root in SOURCE_ROOTS if (ROOT / root / "projectionist" / "__init__.py").exists()] == []


def test_the_wheel_adds_exactly_one_import_name(installed: Environment) -> None:
    assert installed.added == {"projectionist"}


def test_the_wheel_holds_every_source_file_and_nothing_else(installed: Environment) -> None:
    sources = {
        str(path.relative_to(ROOT / root))
        for root in SOURCE_ROOTS
        for path in (ROOT / root / "projectionist").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(installed.wheel) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == sources


def test_every_part_is_typed(installed: Environment) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        assert {name.split("/")[1] for name in wheel.namelist() if name.endswith("/py.typed")} == PARTS


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_a_user_s_own_projections_and_migrations_are_in_nobody_s_way(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment: Environment = request.getfixturevalue(kind)
    for name in SOURCE_ROOTS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True")
    parts = ", ".join(f"projectionist.{part}" for part in sorted(PARTS))
    users = ", ".join(SOURCE_ROOTS)
    code = f"import {parts}\nimport {users}\nprint(all(each.MINE for each in ({users})))"
    assert environment.run(code, tmp_path) == "True\n"


def test_an_editable_install_finds_every_part_where_it_is_written(
    editable: Environment, tmp_path: Path
) -> None:
    assert not any(name.startswith("projectionist") for name in editable.added)
    found = editable.run("import projectionist.core as core; print(core.__file__)", tmp_path)
    assert Path(found.strip()) == ROOT / "runner/projectionist/core/__init__.py"
