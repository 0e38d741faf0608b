"""The wake-up of relays: a coalesced NOTIFY by processes that write intents, a LISTEN in the relay."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from projectionist.core.identifiers import MOST_BYTES
from projectionist.core.postgres.connections import connect
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.testpoints import announce
from projectionist.outbox.relay.database_link import DatabaseLink, DatabaseUnavailable

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Postgres

log = logging.getLogger("projectionist.outbox")

APART_S = 0.002
"""A process notifies at most this often: inside the writers' transactions commits would queue behind each other. A lone
intent is heard of at once; batches under load are fewer than this anyway."""

AGAIN_S = 1.0


def channel(schema: str) -> str:
    """Return the channel of the relays of this schema."""
    return f"{schema}.intents".encode()[-MOST_BYTES:].decode(errors="ignore")


class Notifier:
    """Tells relays that intents were committed. `run` it beside the writer; without it they are found by polling."""

    def __init__(self, postgres: Postgres) -> None:
        # No notification outlives a crash of the server, so none waits for the disk.
        self._link = DatabaseLink(postgres, "notifier", setup="set_stable_plans_async_commit")
        self._channel = channel(postgres.schema)
        self._asked = anyio.Event()

    def wake(self) -> None:
        """Call after the commit; returns at once."""
        self._asked.set()

    async def run(self) -> None:
        """Notify until cancelled."""
        try:
            while True:
                await self._asked.wait()
                self._asked = anyio.Event()
                await self._notify()
                await anyio.sleep(APART_S)
        finally:
            await self._link.close()

    async def _notify(self) -> None:
        try:
            async with self._link.lent() as connection:
                await connection.execute(self._link.sql["notify_relays"], self._channel)
            announce("waker.notified")
        except DatabaseUnavailable:
            await anyio.sleep(AGAIN_S)


class NotifyListener:
    """Hears notifications, on a connection of its own."""

    def __init__(self, postgres: Postgres, heard: Callable[[], None]) -> None:
        self._postgres = postgres
        self._heard = heard

    async def run(self) -> None:
        """Listen until cancelled. Notifications missed while the connection was away count as one."""
        while True:
            try:
                await self._listen()
            except Exception as error:  # only an outage is waited out, anything else is raised again
                if not is_transient(error):
                    raise
            await anyio.sleep(AGAIN_S)

    async def _listen(self) -> None:
        gone = anyio.Event()
        connection = await connect(self._postgres, application_name="projectionist relay (listening)")
        try:
            connection.add_termination_listener(lambda _: gone.set())
            await connection.add_listener(channel(self._postgres.schema), lambda *_: self._heard())
            announce("relay.listening")
            self._heard()
            await gone.wait()
        finally:
            connection.terminate()
