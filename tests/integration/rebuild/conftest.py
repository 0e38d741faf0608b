"""What tests of rebuilding share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.support.lab import Lab, Stream
from tests.support.rebuilding import Yard
from tests.support.rig import rig


@pytest_asyncio.fixture
async def yard(lab: Lab, database: str, stream: Stream) -> AsyncIterator[Yard]:
    """A rig with builders."""
    async with rig(lab, database, stream) as made:
        yield Yard(made)
