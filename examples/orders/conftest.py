"""Lets tests import `orders` from this folder, wherever they are started, and asynchronous ones run."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run tests marked `anyio` by asyncio."""
    return "asyncio"
