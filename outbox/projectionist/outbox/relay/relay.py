"""The relay: a process that leases intents, sends them, and settles replies. Several may run at once."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio

from projectionist.core.errors import DefinitionError
from projectionist.core.gate import nats_reach, postgres_reach
from projectionist.core.nats import connections
from projectionist.core.postgres import connections as db
from projectionist.core.postgres.connections import DatabaseUnreachableError
from projectionist.core.stopping import Stop
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.telemetry import instruments, metrics
from projectionist.core.testpoints import announce
from projectionist.core.user_errors import lasting
from projectionist.outbox.providers.base import Provider, ProviderContext
from projectionist.outbox.providers.runtime import running
from projectionist.outbox.relay.concurrency_shares import LOOK_S
from projectionist.outbox.relay.database_link import DatabaseLink, DatabaseUnavailable
from projectionist.outbox.relay.failover import judge
from projectionist.outbox.relay.intent_store import IntentStore
from projectionist.outbox.relay.notify import NotifyListener
from projectionist.outbox.relay.opener import Opener
from projectionist.outbox.relay.schedule_store import ScheduleStore
from projectionist.outbox.relay.sender import Sender

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Connection
    from projectionist.core.settings.settings import Nats, Settings
    from projectionist.core.telemetry.health_server import Health

log = logging.getLogger("projectionist.outbox")

POLL_S = 2.0
"""Seconds between two polls of a provider without a wake-up; more with many providers, one query a second in all."""

TEND_S = 30.0
"""Seconds between two looks for intents of providers that the app lacks, or has again."""

BEAT_S = 5.0
"""Seconds between two heartbeats of a relay."""

LEAVE_S = 1.0
"""How long a relay that stops tries to delete its heartbeat."""

FLUSH_S = 5.0
"""How long a relay that stops waits for the database to take the replies it has."""


async def run(
    factories: Mapping[str, Callable[..., Any]],
    settings: Settings,
    *,
    consumers: Sequence[str] = (),
    prepared: Callable[[Connection], Awaitable[None]] | None = None,
    health: Health | None = None,
    begun: Callable[[], object] = lambda: None,
    signals: bool = True,
) -> None:
    """Run the providers of an app; return after SIGTERM or SIGINT, when every attempt is settled.

    With `signals=False` it is part of another program: it listens to none, and stops in the same way when it is
    cancelled. A server that cannot be reached is waited for, at the start too. `consumers`: the app's own, whose
    intents are held where it lacks their provider. Raises errors that no waiting mends: settings that cannot work, a
    provider that cannot be opened. `prepared` looks at the database first, and raises if it does not fit. `health` and
    `begun` learn when it has begun.
    """
    checked = _checked(factories)
    running_relays: list[Relay] = []
    stop = Stop(partial(_stop, running_relays), partial(_abandon, running_relays), settings.run.shutdown_s)
    with unwrap_single_exception():
        async with (
            stop.heard(signals=signals, begun=lambda: announce("relay.hears")),
            AsyncExitStack() as stack,
        ):
            metrics.show(instruments.REACHABLE, metrics.reachable(postgresql=False))
            if prepared is not None:
                await _check_database(settings, prepared)
            relay = await _opened(stack, checked, settings, consumers)
            if health is not None:
                health.started, health.troubles = True, relay.troubles
            metrics.ask(instruments.REACHABLE, lambda: metrics.reachable(postgresql=not relay.troubles()))
            running_relays.append(relay)
            begun()
            announce("relay.running")
            await relay.run()
    announce("relay.stopped")


async def _opened(
    stack: AsyncExitStack,
    factories: Mapping[str, type[Provider]],
    settings: Settings,
    consumers: Sequence[str],
) -> Relay:
    """Open providers and the relay's connections; `stack` closes them."""
    broker = _Broker(settings.nats)
    stack.push_async_callback(broker.close)
    context = ProviderContext(nats=broker.client)
    providers = await stack.enter_async_context(running(factories, settings, context))
    relay = Relay(providers, settings, consumers)
    stack.push_async_callback(relay.close)
    return relay


async def _check_database(settings: Settings, prepared: Callable[[Connection], Awaitable[None]]) -> None:
    """Wait for PostgreSQL, and have it checked."""
    open_one = partial(db.connect, settings.postgres, application_name="projectionist relay")
    connection = await postgres_reach().until(
        open_one, lambda error: isinstance(error, DatabaseUnreachableError)
    )
    try:
        await prepared(connection)
    finally:
        await connection.close()


class Relay:
    """The senders of all providers, on connections that they share, one a step, and one that listens."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        settings: Settings,
        consumers: Sequence[str] = (),
        *,
        poll_s: float = POLL_S,
        look_s: float = LOOK_S,
    ) -> None:
        name = f"{socket.gethostname()}:{os.getpid()}"
        leases = DatabaseLink(
            settings.postgres, "relay (leases)", setup="set_stable_plans_async_commit", judge=judge
        )
        starts = DatabaseLink(settings.postgres, "relay")
        replies = DatabaseLink(settings.postgres, "relay (replies)")
        unpacking = DatabaseLink(
            settings.postgres, "relay (unpacking)", setup="set_stable_plans_async_commit"
        )
        self._links = (leases, starts, replies, unpacking)
        self._poll_s = max(poll_s, 1.1 * (len(providers) + 1))
        self._senders = [
            Sender(
                provider,
                (leases, starts, replies),
                name,
                self._poll_s,
                settings.telemetry.baggage,
                look_s=look_s,
            )
            for provider in providers.values()
        ]
        self._store = IntentStore(starts, name)
        self._opener = Opener(ScheduleStore(unpacking), self._wake_senders, self._poll_s)
        self._names = list(providers)
        self._consumers = consumers
        self._rates = {
            name: None if one.settings.rate_per_s is None else (one.settings.rate_per_s, one.settings.burst)
            for name, one in providers.items()
        }
        self._listener = NotifyListener(settings.postgres, self.wake)
        self._reported: set[str] = set()
        self._instance = uuid4()

    async def run(self) -> None:
        """Send until `stop`, then return when every attempt is settled."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(lasting, self._listener.run)
            beside.start_soon(lasting, self._hold_unserved)
            beside.start_soon(lasting, self._beat)
            beside.start_soon(lasting, self._opener.run)
            async with anyio.create_task_group() as senders:
                for sender in self._senders:
                    senders.start_soon(lasting, sender.run)
            beside.cancel_scope.cancel()
        with suppress(DatabaseUnavailable), anyio.move_on_after(LEAVE_S):
            await self._store.remove_heartbeat(self._instance)

    def wake(self) -> None:
        """Look for intents now: staged ones first."""
        self._opener.wake()

    def _wake_senders(self) -> None:
        for sender in self._senders:
            sender.wake()

    def troubles(self) -> list[str]:
        """Return the reasons for which nothing is sent now."""
        return ["PostgreSQL cannot be used"] if any(link.away for link in self._links) else []

    def stop(self) -> None:
        """Lease nothing more."""
        for sender in self._senders:
            sender.stop()

    def abandon(self) -> None:
        """Wait no longer for replies."""
        for sender in self._senders:
            sender.abandon()

    async def close(self) -> None:
        """Close the connections."""
        for link in self._links:
            await link.close()

    async def _beat(self) -> None:
        """Record now and then that this relay works: operators see by it whether intents are served."""
        while True:
            with suppress(DatabaseUnavailable):
                await self._store.heartbeat(self._instance, socket.gethostname(), os.getpid(), self._names)
                announce("relay.beat")
            await anyio.sleep(BEAT_S)

    async def _hold_unserved(self) -> None:
        """Hold intents without a provider here, release those that have one again."""
        why = ["missing", "unset"]
        while True:
            try:
                await self._store.release(self._names, why)
                why = ["missing"]
                held = await self._store.hold_unserved(self._names, self._consumers)
                for name in held.keys() - self._reported:
                    log.warning(
                        "%s: the app has no provider of this name, %d intents are held", name, held[name]
                    )
                self._reported |= held.keys()
                await self._store.forget_destinations(self._rates)
                announce("relay.tended")
            except DatabaseUnavailable:
                announce("relay.untended")
            await anyio.sleep(TEND_S)


class _Broker:
    """The relay's NATS connection, made when the first provider asks for it."""

    def __init__(self, settings: Nats) -> None:
        self._settings = settings
        self._client: Client | None = None

    async def client(self) -> Client:
        if self._client is None:
            connect = partial(connections.connect, self._settings, name="projectionist relay")
            self._client = await nats_reach().until(connect, connections.is_away)
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            with anyio.move_on_after(2, shield=True):
                await self._client.close()


def _checked(factories: Mapping[str, Callable[..., Any]]) -> dict[str, type[Provider]]:
    if not factories:
        raise DefinitionError(
            "the app has no providers, so there is nothing to relay",
            remedy='Give it some: App(providers={"email": Smtp})',
        )
    checked = {}
    for name, factory in factories.items():
        if not (isinstance(factory, type) and issubclass(factory, Provider)):
            raise DefinitionError(
                f"the provider {name!r} of the app is {factory!r}",
                remedy="Give the class itself, a subclass of Provider; the relay makes it",
            )
        checked[name] = factory
    return checked


def _stop(relays: Sequence[Relay]) -> bool:
    """Ask to stop; return False where no relay runs yet, so that there is nothing to wait for."""
    for relay in relays:
        relay.stop()
    return bool(relays)


async def _abandon(relays: Sequence[Relay]) -> None:
    log.warning("stopping at once: intents without a reply yet are unknown, and resolved by the next relay")
    for relay in relays:
        relay.abandon()
    announce("relay.abandoned")
    await anyio.sleep(FLUSH_S)
