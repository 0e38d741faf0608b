"""Ends a process whose event loop stands still: a handler that never returns keeps every consumer of it waiting."""

from __future__ import annotations

import faulthandler

import anyio

from projectionist.core.telemetry import liveness

STDERR = 2
CHANCES = 4
"""How often the clock is wound within the time after which it strikes."""


async def watch(timeout_s: float) -> None:
    """End this process, unless cancelled, with exit code 1 once the loop has not run for `timeout_s` seconds.

    The clock strikes in a thread that needs nothing of Python, so that a handler which holds the interpreter for
    itself, like a regular expression that backtracks for ever, is ended too. It writes where the process hung to
    standard error: names of files and functions, never a value. A process that was stopped for longer ends as well.
    """
    try:
        while True:
            faulthandler.dump_traceback_later(timeout_s, exit=True, file=STDERR)
            liveness.beat("process", within_s=timeout_s)
            await anyio.sleep(timeout_s / CHANCES)
    finally:
        faulthandler.cancel_dump_traceback_later()
        liveness.ended("process")
