"""One consumer in one process, from its start to its end: opens, serves, and waits out what ends by itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from projectionist.core.signals import announce
from projectionist.core.trouble import is_transient
from projectionist.runner.baseline import notes
from projectionist.runner.consumer import Paused, Tripped, paused
from projectionist.runner.course import CONTIGUOUS
from projectionist.runner.groups import flattened
from projectionist.runner.jetstream import BrokerError, StreamMissing
from projectionist.runner.serving import Serving
from projectionist.runner.source import JetStreamSource

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
        self._serving: Serving | None = None
        self._told = ""
        self._early = False
        """Whether this process was there before the stream: then none of its events is from before the first run."""

    async def run(self) -> None:
        """Serve until `stop`; raises Superseded where newer code has taken over, and what nobody can wait out."""
        while not self._stopping.is_set():
            try:
                with flattened():
                    await self._serve()
            except StreamMissing:
                self._early = True
                await self._wait(f"waiting for stream {self.definition.stream}, which does not exist yet")
            except Exception as error:  # whatever its class: only what ends by itself is waited out
                if not (isinstance(error, BrokerError | Paused | Tripped) or is_transient(error)):
                    raise
                await self._wait(str(error))

    def stop(self) -> None:
        """Take nothing new; `run` returns when what has begun is settled."""
        self._stopping.set()
        if self._serving is not None:
            self._serving.stop()

    async def _wait(self, reason: str) -> None:
        self._tell(reason)
        announce("worker.waiting")
        with anyio.move_on_after(RETRY_S):
            await self._stopping.wait()

    async def _serve(self) -> None:
        """Open the source, join the others, and work until told to stop or the source is lost."""
        found = await self._office.registration(self.definition)
        if found["paused"]:  # before anything is read that would have to wait for its redelivery
            raise paused(self.definition.name)
        if found["code"] == self.definition.code and await self._office.shut(self.definition):
            raise Tripped("see `projectionist status`")
        source = self._source(found["durable"])
        stream = await source.open()
        try:
            policy = self._settings.policy(self.definition.name)
            consumer = await self._office.join(self.definition, policy, stream, early=self._early)
            await self._tell_start(consumer, stream.state.first_seq)
            self._serving = Serving(consumer, self._settings, self._client, self._office, source)
            if self._stopping.is_set():
                self._serving.stop()
            await self._serving.run()
        finally:
            self._serving = None
            with anyio.CancelScope(shield=True):
                await source.close()

    def _source(self, durable: str) -> JetStreamSource:
        definition, policy = self.definition, self._settings.policy(self.definition.name)
        return JetStreamSource(
            self._client,
            stream=definition.stream,
            durable=durable,
            subjects=definition.subjects,
            batch=self._settings.batch.max_rows,
            ack_wait_s=policy.ack_wait_s,
            contiguous=definition.sequence == CONTIGUOUS,
        )

    async def _tell_start(self, consumer: Consumer, first_seq: int) -> None:
        begins = first_seq > 1 and await self._office.begins(consumer)
        for note in notes(self.definition, first_seq, begins=begins):
            log.warning("%s: %s", self.definition.name, note)
        mark = consumer.effects[1]
        silent = f", {mark - 1} earlier events stay silent" if mark > 1 else ""
        self._tell(f"generation {consumer.generation}, effects from sequence {max(mark, 1)}{silent}")
        announce("worker.running")

    def _tell(self, text: str) -> None:
        """One line a change, however often it is looked at."""
        if text != self._told:
            self._told = text
            log.info("%s: %s", self.definition.name, text)
