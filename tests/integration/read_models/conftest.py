"""All that is tested here works as a role that is no superuser, as it does with most who use it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.support.consumer_harness import Rig
from tests.support.rebuilding import Yard
from tests.support.roles import as_plain


@pytest_asyncio.fixture
async def live(live: Rig) -> AsyncIterator[Rig]:
    """A rig whose consumers work as a plain role."""
    async with as_plain(live):
        yield live


@pytest_asyncio.fixture
async def yard(yard: Yard) -> AsyncIterator[Yard]:
    """A rig whose builders do so too."""
    async with as_plain(yard.rig):
        yield yard
