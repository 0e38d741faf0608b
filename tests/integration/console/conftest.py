"""The console over a module's `app`, and somebody who may do everything in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.support.console_client import Browser, Served, serving
from tests.support.consumer_harness import ConsumerHarness

from projectionist.runner import App


@pytest_asyncio.fixture
async def served(live: ConsumerHarness, app: App) -> AsyncIterator[Served]:
    """A console; a module that wants another one has a fixture of its own."""
    async with serving(app, live.settings, name="shop.app:app") as made:
        yield made


@pytest_asyncio.fixture
async def ann(served: Served) -> Browser:
    """Logged in with the role that may do everything."""
    return await served.logged_in("ann")
