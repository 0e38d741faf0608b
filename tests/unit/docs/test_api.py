"""The page of public names holds what the packages export, and what the other pages import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from projectionist import api

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
SECTIONS = {
    section.split("`", 1)[0]: re.findall(r"^- `(\w+)`: \S", section, re.MULTILINE)
    for section in PAGE.split("\n## `")[1:]
}


@pytest.mark.parametrize("module", SECTIONS)
def test_a_section_lists_what_its_module_exports(module: str) -> None:
    imported = import_module(module)
    listed = SECTIONS[module]
    assert sorted(listed) == sorted(getattr(imported, "__all__", listed))
    assert [name for name in listed if not hasattr(imported, name)] == []


def test_the_front_door_says_the_same_to_type_checkers_and_to_python() -> None:
    source = Path(api.__file__).read_text("utf-8")
    told = {
        alias.name: node.module
        for branch in ast.parse(source).body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == {name: f"projectionist.{home}" for name, home in api._HOMES.items()}
    assert sorted(told) == sorted(api.__all__)
    assert {*api.__all__} <= {*dir(api)}


def test_the_front_door_has_no_name_that_it_does_not_list() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from projectionist.api import Nothing")  # noqa: S102 as a user writes it


def test_what_an_event_is_written_with_loads_no_client_of_a_broker() -> None:
    code = (
        "import sys; from projectionist.api import Event, Intent, Projection, on;"
        "print(sorted({'nats', 'httpcore', 'aiosmtplib', 'projectionist.runner'} & {*sys.modules}))"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout == "[]\n"


def test_pages_import_nothing_but_public_names() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    imports = [
        (f"{module}.{name}", page.name)
        for page in pages
        for module, names in re.findall(
            r"^from (projectionist[\w.]*) import ([\w, ]+)", page.read_text("utf-8"), re.MULTILINE
        )
        for name in names.split(", ")
    ]
    public = {f"{module}.{name}" for module, names in SECTIONS.items() for name in names}
    assert len(imports) > 10
    assert [found for found in imports if found[0] not in public and found[0] not in SECTIONS] == []
