"""The event loop of processes that do work: uvloop where it is installed, and a collector that looks less often."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

YOUNG, MIDDLE, OLD = 50_000, 20, 50
"""A batch makes tens of thousands of objects, which all live until it is written, and hardly a cycle: with Python's own
thresholds the collector looks at them dozens of times, for an eighth of the time of `projectionist run`."""


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` to its end, on the fastest loop there is."""
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    try:
        import uvloop  # noqa: PLC0415  an extra
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
