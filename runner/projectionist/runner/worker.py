"""One consumer in one process, from its start to its end: opens, serves, and waits out what ends by itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from projectionist.core.signals import announce
from projectionist.runner.consumer import Paused
from projectionist.runner.groups import flattened
from projectionist.runner.heart import Heart
from projectionist.runner.jetstream import BrokerError, StreamMissing
from projectionist.runner.model import model_for
from projectionist.runner.pipeline import Pipeline
from projectionist.runner.registry import Registry
from projectionist.runner.session import Session
from projectionist.runner.settle import Settler
from projectionist.runner.source import JetStreamSource, SourceLost

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings import Settings
    from projectionist.projections.definition import Definition
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.office import Office

log = logging.getLogger("projectionist.runner")

RETRY_S = 1.0
"""How often a missing stream or a paused consumer is looked at again."""


class Worker:
    """Runs one consumer until it is stopped."""

    def __init__(self, definition: Definition, settings: Settings, client: Client, office: Office) -> None:
        self.definition = definition
        self._settings = settings
        self._client = client
        self._office = office
        self._stopping = anyio.Event()
        self._pipeline: Pipeline | None = None
        self._told: str | None = None

    async def run(self) -> None:
        """Serve until `stop`; raises Superseded where newer code has taken over, and what nobody can wait out."""
        while not self._stopping.is_set():
            try:
                with flattened():
                    await self._serve()
            except (StreamMissing, SourceLost, BrokerError, Paused) as error:
                self._tell(f"{self.definition.name}: waiting. {error}")
                announce("worker.waiting")
                with anyio.move_on_after(RETRY_S):
                    await self._stopping.wait()

    def stop(self) -> None:
        """Take nothing new; `run` returns when what has begun is settled."""
        self._stopping.set()
        if self._pipeline is not None:
            self._pipeline.stop()
