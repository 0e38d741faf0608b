"""The event loop of processes that do work: uvloop where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end, on the fastest loop there is."""
    try:
        import uvloop  # noqa: PLC0415  an extra
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
