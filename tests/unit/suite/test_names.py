"""One name for one thing: what a class is called, no other class is."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
PARTS = ("runner", "projections", "outbox", "migrations", "ops")


def test_each_class_name_is_there_once() -> None:
    found = defaultdict(set)
    for part in PARTS:
        for file in (ROOT / part / "projectionist").rglob("*.py"):
            if "template" not in file.parts:
                for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                    if isinstance(node, ast.ClassDef):
                        found[node.name].add(str(file.relative_to(ROOT)))

    assert {name: sorted(files) for name, files in found.items() if len(files) > 1} == {}


def test_each_room_says_what_it_owns_what_it_may_import_and_which_file_to_read_first() -> None:
    rooms = [
        file
        for part in PARTS
        for file in (ROOT / part / "projectionist").glob("*/*/__init__.py")
        if "template" not in file.parts
    ]
    assert len(rooms) > 30
    for file in rooms:
        said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
        assert "may import" in said, file
        first = said.rpartition("Read `")[2].partition("`")[0]
        assert (file.parent / f"{first}.py").is_file(), file
