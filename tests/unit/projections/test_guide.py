"""The guide's Python runs as it stands, page by page."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from projectionist.projections.compiled.definition import ConsumerDefinition, compiled_of

GUIDE = Path(__file__).parents[3] / "docs" / "guide"
PAGES = ("first-projection", "keyed-views", "lookups", "several-rows", "strategies")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_top_to_bottom(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (GUIDE / f"{page}.md").read_text("utf-8")
    blocks = [
        block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "import App" not in block
    ]
    module = ModuleType(page)
    monkeypatch.setitem(sys.modules, page, module)
    source = "from __future__ import annotations\n" + "\n".join(blocks)
    exec(compile(source, f"{page}.md", "exec"), module.__dict__)  # noqa: S102 our own guide
    found = [made for value in vars(module).values() if (made := compiled_of(value)) is not None]
    consumers = [one for one in found if isinstance(one, ConsumerDefinition)]
    assert consumers
    assert all(one.code for one in consumers)


def test_every_link_of_the_strategies_leads_to_a_heading() -> None:
    text = (GUIDE / "strategies.md").read_text("utf-8")
    anchors = {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^## (.*)$", text, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) == anchors
