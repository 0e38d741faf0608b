"""The page of the four walks names files that are there, in the order in which control passes through them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
SOURCES = {
    "runner": "runner",
    "core": "runner",
    "outbox": "outbox",
    "projections": "projections",
    "ops": "ops",
}


WALKS = {
    walk.split("\n", 1)[0]: re.findall(r"^\d+\. `([\w/]+)\.py`( \(by [^)]+\))?: ", walk, re.MULTILINE)
    for walk in PAGE.split("\n## ")[1:]
}


def _path(file: str) -> Path:
    return ROOT / SOURCES[file.split("/", maxsplit=1)[0]] / "projectionist" / f"{file}.py"


def _imports(file: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(_path(file).read_text("utf-8"))))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    modules = {str(node.module) for node in froms}
    names = {f"{node.module}.{alias.name}" for node in froms for alias in node.names}
    return {name.removeprefix("projectionist.").replace(".", "/") for name in modules | names}


@pytest.mark.parametrize("walk", WALKS)
def test_each_line_of_a_walk_names_a_file(walk: str) -> None:
    lines = re.findall(r"^\d+\. ", PAGE.split(f"## {walk}\n")[1].split("\n## ")[0], re.MULTILINE)
    assert len(WALKS[walk]) == len(lines) >= 5
    assert [file for file, _ in WALKS[walk] if not _path(file).is_file()] == []


@pytest.mark.parametrize("walk", WALKS)
def test_each_file_of_a_walk_is_imported_by_one_above_it_or_says_how_control_comes(
    walk: str,
) -> None:
    files = [file for file, _ in WALKS[walk]]
    unreached = {
        file
        for place, file in enumerate(files)
        if place and not any(file in _imports(above) for above in files[:place])
    }
    assert unreached == {file for file, way in WALKS[walk] if way}


def test_an_event_passes_five_stations() -> None:
    assert len(WALKS["One event, from JetStream to its ack"]) == 5


def test_each_box_of_a_diagram_is_a_file() -> None:
    boxes = re.findall(r"\[([\w/]+)\]", "".join(re.findall(r"```mermaid(.*?)```", PAGE, re.DOTALL)))
    files = {
        str(file.with_suffix("")) for part in set(SOURCES.values()) for file in (ROOT / part).rglob("*.py")
    }
    assert [box for box in boxes if not any(file.endswith(f"/{box}") for file in files)] == []
