"""The connection a consumer's batches run on: opened when needed, replaced after an outage, each change told once."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import anyio

from projectionist.core.db import connect
from projectionist.core.signals import announce
from projectionist.runner.registry import barrier_key
from projectionist.runner.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from projectionist.core.db import Connection
    from projectionist.core.settings import Postgres
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.model import Model

log = logging.getLogger("projectionist.runner")

CLOSING_S = 2.0


class Session:
    """One connection, and the store and model that work on it."""

    def __init__(
        self, consumer: Consumer, settings: Postgres, model: Callable[[Connection, Consumer], Model]
    ) -> None:
        self._consumer = consumer
        self._settings = settings
        self._model = model
        self._open: tuple[Connection, Store, Model] | None = None
        self._ill_since: float | None = None

    @property
    def backend_pid(self) -> int | None:
        """The PostgreSQL process behind the connection, for whoever has to end it if this process hangs."""
        return None if self._open is None else self._open[0].get_server_pid()

    async def ready(self) -> tuple[Store, Model]:
        """A store and a model on a live connection."""
        if self._open is None or self._open[0].is_closed():
            # By its number a session is known for a runner's that was stopped, and ended.
            name = f"projectionist {self._consumer.runner} {self._consumer.definition.name}"
            connection = await connect(self._settings, application_name=name[:63])
            store = store_of(connection, self._settings.schema, self._consumer.number)
            self._open = connection, store, self._model(connection, self._consumer)
        return self._open[1:]

    def well(self) -> None:
        """A batch went through."""
        if self._ill_since is not None:
            log.info(
                "%s: PostgreSQL is back after %.1f s",
                self._consumer.definition.name,
                time.monotonic() - self._ill_since,
            )
            self._ill_since = None
            announce("session.well")

    async def failed(self, error: Exception) -> None:
        """A batch failed for no fault of its own: the connection is not trusted any more."""
        if self._ill_since is None:
            self._ill_since = time.monotonic()
            log.warning(
                "%s: PostgreSQL cannot be used, waiting for it: %s", self._consumer.definition.name, error
            )
            announce("session.ill")
        await self.close()

    async def close(self) -> None:
        """Give the connection up; a peer that does not answer is not waited for."""
        if self._open is None:
            return
        connection, self._open = self._open[0], None
        with anyio.move_on_after(CLOSING_S, shield=True):
            try:
                await connection.close(timeout=CLOSING_S)
            except (OSError, TimeoutError):
                connection.terminate()


def store_of(connection: Connection, schema: str, consumer: int) -> Store:
    """The store of one consumer, by its number, on this connection."""
    return Store(connection, schema, consumer, barrier_key(schema, consumer))
