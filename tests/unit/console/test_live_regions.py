"""However many pages are open, one address is read once in a while; and the script that asks is the published one."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import pytest

from projectionist.console.live_regions import MOST_ADDRESSES, Contents, SharedReads
from projectionist.console.pages import STATIC

pytestmark = pytest.mark.asyncio


class Reads:
    """Counts how often it is read, and fails when told to."""

    def __init__(self) -> None:
        self.n, self.now, self.failing = 0, 0.0, False

    async def __call__(self) -> Contents:
        self.n += 1
        await asyncio.sleep(0)
        if self.failing:
            raise OSError("away")
        return {"n": self.n}


async def test_all_who_look_at_an_address_share_one_reading_until_it_is_old() -> None:
    reads = Reads()
    shared = SharedReads(every_s=4, now=lambda: reads.now)
    seen = await asyncio.gather(*(shared.read(("/", "view"), reads) for _ in range(50)))
    assert [one["n"] for one in seen] == [1] * 50
    assert await shared.read(("/", "operate"), reads) == {"n": 2}, (
        "what a role may not see is not shared with it"
    )
    reads.now += 4
    assert await shared.read(("/", "view"), reads) == {"n": 3}


async def test_what_a_reading_has_failed_with_is_told_to_all_and_tried_again_later() -> None:
    reads = Reads()
    shared = SharedReads(every_s=4, now=lambda: reads.now)
    reads.failing = True
    for _ in range(3):
        with pytest.raises(OSError, match="away"):
            await shared.read(("/",), reads)
    assert reads.n == 1
    reads.now, reads.failing = 4, False
    assert await shared.read(("/",), reads) == {"n": 2}


async def test_addresses_that_are_made_up_fill_no_memory() -> None:
    reads = Reads()
    shared = SharedReads(now=lambda: reads.now)
    for n in range(MOST_ADDRESSES + 50):
        await shared.read((str(n),), reads)
    assert len(shared._readings) == MOST_ADDRESSES


async def test_htmx_is_what_was_published() -> None:
    told, name = (STATIC / "htmx/SHA256").read_text("utf-8").split()
    assert sha256((STATIC / "htmx" / name).read_bytes()).hexdigest() == told
    assert (STATIC / "htmx/LICENSE").read_text("utf-8").startswith("Zero-Clause BSD")
