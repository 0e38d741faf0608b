"""A program that runs the shop and its relay beside its own work: `python -m tests.support.web fastapi`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from fastapi import FastAPI
from litestar import Litestar
from tests.support import shop_app

from projectionist.outbox.providers import Outcome, Provider, Reply, Request
from projectionist.runner import App


class Post(Provider):
    """Takes every letter."""

    async def send(self, request: Request) -> Reply:
        return Reply(outcome=Outcome.SENT)


app = App(projections=[one.cls for one in shop_app.app.definitions], providers={"email": Post})


@asynccontextmanager
async def lifespan(_: object) -> AsyncIterator[None]:
    """As the guide shows it: uvicorn goes on where its lifespan ends before it is asked to."""
    try:
        async with app.running():
            yield
    except Exception:
        signal.raise_signal(signal.SIGTERM)
        raise


async def alone() -> None:
    """Without a server: a program of plain asyncio."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with app.running():
        await stop.wait()
    sys.stderr.write("Application shutdown complete\n")


HOSTS: dict[str, Any] = {
    "fastapi": lambda: FastAPI(lifespan=lifespan),
    "litestar": lambda: Litestar(lifespan=[lifespan]),
}

if __name__ == "__main__":
    if sys.argv[1] == "asyncio":
        asyncio.run(alone())
    else:
        made = HOSTS[sys.argv[1]]()
        import_module("uvicorn").run(made, host="127.0.0.1", port=0, lifespan="on", log_level="info")
