"""Apps whose waiter has other times than a program's."""

from __future__ import annotations

import asyncio

from projectionist.core.settings.settings import Settings
from projectionist.runner import App
from projectionist.runner.wait.waiter import Waiter


def waiting(app: App, settings: Settings, nobody_s: float = 600.0, **times: float) -> App:
    """Let an app wait as long as the test says, and for ever for a consumer that nobody runs yet."""
    waiter = Waiter(app.definitions, settings, nobody_s=nobody_s, **times)
    app._waiters[asyncio.get_running_loop()] = waiter
    return app
