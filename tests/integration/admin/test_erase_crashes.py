"""Whoever dies while something is erased leaves nothing wrong, and erases to the end the next time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.erasing import erase, holders
from tests.support.rebuilding import RebuildHarness, dying
from tests.support.retention import age, purge, sent
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.settings.settings import Retention, Settings
from projectionist.runner.admin import erasure

pytestmark = pytest.mark.asyncio

WORD = "c4nary"
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


async def history(live: ConsumerHarness, folder: Path, *classes: type) -> None:
    """One order whose first events are in files, the next in the inbox and parked ones behind a gap; and another."""
    await live.publish(OrderPlaced("ann", 10), "o1", 1, id="e1")
    await live.publish(OrderNoted(WORD), "o1", 2, id="e2")
    await live.publish(OrderPlaced("ann", 5), "o2", 1, id="e3")
    await live.settle(*classes)
    await age(live, 100)
    await purge(live, *classes, archive="files", archive_folder=str(folder))
    await purge(live, *classes, archive="table")
    await live.publish(OrderNoted(f"{WORD} again"), "o1", 3, id="e4")
    await live.publish(OrderPaid(), "o1", 4, id="e5")
    await live.publish(OrderNoted(f"{WORD} waits"), "o1", 6, id="e6")
    await live.settle(*classes, policy=msgspec.structs.replace(live.policy, payload="always"))
    await sent(live)


def contents(folder: Path) -> dict[Path, str]:
    """Return every file below a folder, and what is in it."""
    return {path: path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("point", POINTS)
async def test_an_erase_that_dies_anywhere_is_ended_by_the_next_one(
    live: ConsumerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setattr(erasure, "STEP", 1)
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
