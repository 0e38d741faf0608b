"""Apps whose waiter has other times than a program's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from projectionist.core.settings.settings import Settings
from projectionist.runner import App
from projectionist.runner.wait.outcome import WaitResult
from projectionist.runner.wait.waiter import Waiter


class Ask(Protocol):
    """A call that waits for something."""

    def __call__(self, *, timeout_s: float) -> Awaitable[WaitResult]:
        """Wait for so long."""


def waiting(app: App, settings: Settings, nobody_s: float = 600.0, **times: float) -> App:
    """Let an app wait as long as the test says, and for ever for a consumer that nobody runs yet."""
    waiter = Waiter(app.definitions, settings, nobody_s=nobody_s, **times)
    app._waiters[asyncio.get_running_loop()] = waiter
    return app


async def looked(ask: Ask) -> WaitResult:
    """Wait for so short a time that it is over, and long enough for one look, however busy the machine is."""
    timeout_s = 0.1
    while "no answer within" in (late := await ask(timeout_s=timeout_s)).reason:
        timeout_s *= 2
    return late
