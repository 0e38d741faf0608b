"""All that is tested here works as a role that is no superuser, as it does with most who use it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.support.consumer_harness import ConsumerHarness
from tests.support.rebuilding import RebuildHarness
from tests.support.roles import as_plain


@pytest_asyncio.fixture
async def live(live: ConsumerHarness) -> AsyncIterator[ConsumerHarness]:
    """A harness whose consumers work as a plain role."""
    async with as_plain(live):
        yield live


@pytest_asyncio.fixture
async def rebuilds(rebuilds: RebuildHarness) -> AsyncIterator[RebuildHarness]:
    """A harness whose builders do so too."""
    async with as_plain(rebuilds.harness):
        yield rebuilds
