"""The page of public names holds what the packages export, and what the other pages import."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
SECTIONS = {
    section.split("`", 1)[0]: re.findall(r"^- `(\w+)`: \S", section, re.MULTILINE)
    for section in PAGE.split("\n## `")[1:]
}
FRONT = [
    "projectionist.projections",
    "projectionist.outbox",
    "projectionist.outbox.providers",
    "projectionist.runner",
]


@pytest.mark.parametrize("module", FRONT)
def test_a_package_of_public_names_has_a_section(module: str) -> None:
    assert module in SECTIONS


@pytest.mark.parametrize("module", SECTIONS)
def test_a_section_lists_what_its_module_exports(module: str) -> None:
    imported = import_module(module)
    listed = SECTIONS[module]
    assert listed == sorted(getattr(imported, "__all__", listed))
    assert [name for name in listed if not hasattr(imported, name)] == []


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
