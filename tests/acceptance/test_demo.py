"""The demo shows the main job and leaves nothing behind."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.process import run_projectionist

pytestmark = pytest.mark.asyncio


@pytest.fixture
def empty() -> Iterator[Path]:
    """A folder for temporary files, which every account gets through and which must be empty afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="projectionist-demo-"))
    folder.chmod(0o711)
    yield folder
    folder.rmdir()  # refused where anything is left


async def test_the_demo_shows_the_main_job_and_leaves_nothing_behind(tmp_path: Path, empty: Path) -> None:
    ended = await run_projectionist(
        *("demo", "--orders", "300", "--json", "--html", "one.html"), cwd=tmp_path, TMPDIR=str(empty)
    )
    assert ended.code == 0, ended.err
    assert "fsync on" in ended.err
    outcome = json.loads(ended.out)
    assert outcome["rows"]["order_summary"] == 300
    assert set(outcome["differing"].values()) == {0}
    assert outcome["outcomes"]["duplicate"] > 0, "the producer was not careless enough to show anything"
    assert outcome["outcomes"]["parked_gap"] > 0
    assert outcome["outcomes"]["intents"] == 300
    assert outcome["rebuilt"] > 0
    assert (outcome["mails"], outcome["doubled"]) == (300, 0)
    page = (tmp_path / "one.html").read_text("utf-8")
    assert "0af7651916cd43dd8448eb211c80319c" in page
    for step in ("order.placed v1", "OrderSummary", "intent ", "attempt 1 at "):
        assert step in page, step
    assert "example.org" not in page, "no payload is in it"
