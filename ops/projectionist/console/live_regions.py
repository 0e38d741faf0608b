"""Pages that are open ask again every few seconds: all who look at one address share one reading of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from projectionist.core import clock

EVERY_S = 5
"""So often a page that is open asks again."""
SHARED_S = EVERY_S - 1
"""So long a reading is good for all open pages: each of them has another one whenever it asks."""
SELDOM_S = {"/rebuild": 2 * EVERY_S - 1}
"""A page that takes several statements is read anew for every second time it asks."""
FRAME = "/live"
"""What a page asks that does not live itself: navigation and banners, from the snapshot alone."""
LIVE = frozenset(
    {"/", "/consumer", "/waiting", "/waiting/group", "/quarantine", "/quarantine/group"}
    | {
        "/outbox",
        "/outbox/group",
        "/incidents",
        "/streams",
        "/rebuilds",
        "/rebuild",
        "/operations",
        "/operation",
    }
)
MOST_ADDRESSES = 200

Contents = Mapping[str, Any]
"""What a page is made of, whoever looks at it."""


class _Reading:
    """The last reading of one address."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.at = float("-inf")
        self.contents: Contents = {}
        self.problem: Exception | None = None


class SharedReads:
    """Reads each address at most once in a while, however many open pages ask for it."""

    def __init__(self, *, every_s: float = SHARED_S, now: Callable[[], float] = clock.now) -> None:
        self._every_s, self._now = every_s, now
        self._readings: dict[tuple[str, ...], _Reading] = {}

    async def read(
        self, key: tuple[str, ...], anew: Callable[[], Awaitable[Contents]], every_s: float | None = None
    ) -> Contents:
        """Return what was read lately, or read it; what a reading has ended with ends it for all who ask."""
        one = self._readings.pop(key, None) or _Reading()
        self._readings[key] = one
        while len(self._readings) > MOST_ADDRESSES:
            del self._readings[next(iter(self._readings))]
        async with one.lock:
            if self._now() - one.at >= (every_s or self._every_s):
                try:
                    one.contents, one.problem = await anew(), None
                except Exception as error:  # noqa: BLE001 - raised below, to whoever asks until the next reading
                    one.problem = error
                one.at = self._now()
        if one.problem is not None:
            raise one.problem
        return one.contents
