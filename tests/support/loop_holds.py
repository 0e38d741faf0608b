"""How long an event loop is held: the processor time of each callback, since wall time tells of the machine."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class LoopHolds:
    """The callbacks of a loop, of others than the task that looks on."""

    def __init__(self) -> None:
        self.longest_s, self.by, self.callbacks = 0.0, "", 0

    def note(self, spent_s: float, callback: object) -> None:
        """Take one callback into account."""
        self.callbacks += 1
        if spent_s > self.longest_s:
            self.longest_s, self.by = spent_s, f"{callback!r} {getattr(callback, '__self__', '')!r}"


@contextmanager
def held_loop() -> Iterator[LoopHolds]:
    """Measure the running loop for the length of the block; without collecting what tests have left."""
    holds, ours, run = LoopHolds(), asyncio.current_task(), asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> Any:
        callback: Any = handle._callback  # type: ignore[attr-defined]  # there is no other way to it
        begun = time.thread_time()
        result = run(handle)
        if getattr(callback, "__self__", None) is not ours:
            holds.note(time.thread_time() - begun, callback)
        return result

    gc.collect()
    gc.freeze()
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(asyncio.Handle, "_run", measured)
            yield holds
    finally:
        gc.unfreeze()
