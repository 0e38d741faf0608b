"""The guides' Python is run: what a reader copies works."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from projectionist.projections.compiled.class_options import ClassOptions

DOCS = Path(__file__).parents[3] / "docs"
OPTIONS = DOCS / "reference" / "class-options.md"
GUIDES = [*sorted((DOCS / "guide").glob("*.md")), OPTIONS]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_the_python_of_a_guide_can_be_imported(guide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", guide.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks, f"{guide.name} shows no code"
    module = ModuleType(f"guide_{guide.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # where annotations are looked up
    names = module.__dict__
    for block in blocks:
        exec(compile(block, str(guide), "exec"), names)  # noqa: S102 - our own documentation
    for name in [
        name for name in names if name.startswith("test_") and not inspect.iscoroutinefunction(names[name])
    ]:
        names[name]()
    assert any(isinstance(value, type) for value in names.values()), f"{guide.name} defines nothing"


def test_the_page_of_class_options_tells_each_keyword() -> None:
    told = re.findall(r"^\| `(\w+)` \|", OPTIONS.read_text("utf-8"), re.MULTILINE)
    taken = [field.name for field in dataclasses.fields(ClassOptions)]
    assert sorted(told) == sorted([*taken, "table", "key", "indexes"])
