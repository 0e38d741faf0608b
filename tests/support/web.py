"""A web application that runs the shop and its relay beside its requests: `python -m tests.support.web`, by uvicorn."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import anyio
from tests.support import shop_app

from projectionist.core.settings.settings import settings
from projectionist.outbox.providers import Outcome, Provider, Reply, Request
from projectionist.outbox.relay import relay
from projectionist.runner.process import run


class Post(Provider):
    """Takes every letter."""

    async def send(self, request: Request) -> Reply:
        return Reply(outcome=Outcome.SENT)


async def web(scope: Any, receive: Any, send: Any) -> None:
    """The lifespan protocol of ASGI, and nothing else."""
    assert scope["type"] == "lifespan"
    await receive()
    found = settings()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(run.run, shop_app.app.definitions, found, signals=False))
        tasks.start_soon(partial(relay.run, {"email": Post}, found, signals=False))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        tasks.cancel_scope.cancel()
    await send({"type": "lifespan.shutdown.complete"})


if __name__ == "__main__":
    import_module("uvicorn").run(web, host="127.0.0.1", port=0, lifespan="on", log_level="info")
