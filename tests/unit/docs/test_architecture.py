"""The page of the four walks names files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
SOURCES = {
    "runner": "runner",
    "core": "runner",
    "outbox": "outbox",
    "projections": "projections",
    "ops": "ops",
}


def test_each_file_of_a_walk_exists() -> None:
    named = re.findall(r"^\d+\. `(\w+)/([\w/]+\.py)`", PAGE, re.MULTILINE)
    assert len(named) > 25
    assert [
        f"{part}/{rest}"
        for part, rest in named
        if not (ROOT / SOURCES[part] / "projectionist" / part / rest).is_file()
    ] == []


def test_each_box_of_a_diagram_is_a_file() -> None:
    boxes = re.findall(r"\[([\w/]+)\]", "".join(re.findall(r"```mermaid(.*?)```", PAGE, re.DOTALL)))
    files = {
        str(file.with_suffix("")) for part in set(SOURCES.values()) for file in (ROOT / part).rglob("*.py")
    }
    assert [box for box in boxes if not any(file.endswith(f"/{box}") for file in files)] == []
