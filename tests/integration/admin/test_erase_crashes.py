"""Whoever dies while something is erased leaves nothing wrong, and erases to the end the next time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.erasing import WORD, contents, erase, history, holders
from tests.support.rebuilding import RebuildHarness, dying
from tests.support.shop import shop

from projectionist.core.settings.settings import Retention, Settings
from projectionist.runner.admin import erased_archive, erasure

pytestmark = pytest.mark.asyncio

POINTS = (
    "erase.planned",
    "erase.deciding",
    "erase.decided",
    "erase.emptying",
    "erase.emptied",
    "recompute.entered",
    "erase.archiving",
    "erase.file_written",
    "erase.file_replaced",
    "erase.message_deleted",
)


def filed(live: ConsumerHarness, folder: Path) -> Settings:
    """Return settings by which retention archives to files."""
    retention = Retention(archive="files", archive_folder=str(folder))
    return msgspec.structs.replace(live.settings, retention=retention)


@pytest.mark.parametrize("point", POINTS)
async def test_an_erase_that_dies_anywhere_is_ended_by_the_next_one(
    live: ConsumerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setattr(erasure, "STEP", 1)
    monkeypatch.setattr(erased_archive, "STEP", 1)
    s, builders = shop(live.stream), RebuildHarness(live)
    await live.migrate(s.Orders, s.Spend)
    await history(live, tmp_path, s.Orders, s.Spend)
    settings = filed(live, tmp_path)
    with dying(point):
        await erase(
            live, s.Orders, s.Spend, aggregate="order/o1", settings=settings, folder=tmp_path, messages=True
        )
    await live.assert_sound()
    done = await erase(
        live, s.Orders, s.Spend, aggregate="order/o1", settings=settings, folder=tmp_path, messages=True
    )
    assert done.undone == []
    assert await holders(live, WORD) == []
    assert [row[0] for row in await live.rows("orders")] == ["o2"]
    assert await live.rows("spend") == [("ann", 1, 5)]
    texts = contents(tmp_path)
    assert not any(WORD in text or WORD.encode().hex() in text for text in texts.values())
    assert {path.suffix for path in texts} == {".jsonl"}
    for cls in (s.Orders, s.Spend):
        found = await builders.verify(cls)
        assert (found.drifted, found.unsure, found.undecidable) == (0, 0, 0)
    live.tampered = True  # messages are gone from the stream
