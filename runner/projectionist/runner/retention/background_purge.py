"""The purge in the background: of all processes of an app, one at a time, every so often."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import anyio

from projectionist.core.log_format import facts
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.postgres.leases import Leases
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.core.testpoints import announce
from projectionist.runner.consumers.registry import INSTANCE
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import BrokerError
from projectionist.runner.retention.archive_files import ArchiveFailed
from projectionist.runner.retention.purge import Purger

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings.settings import Settings
    from projectionist.runner.batch.shared_pool import SharedPool
    from projectionist.runner.jetstream.api import StreamConfig
    from projectionist.runner.retention.purge import PurgeReport, Streams

log = logging.getLogger("projectionist.runner")

_ABOUT = facts(kind="purge_failed")
FIRST_S = 30.0
"""How long a process that begins leaves the database to others."""


class BackgroundPurger:
    """Purges whenever the lease is to be had."""

    def __init__(
        self, access: SharedPool, settings: Settings, client: Client, consumers: Sequence[str]
    ) -> None:
        self._access = access
        self._interval_s = settings.retention.purge_interval_s
        self._leases = Leases(settings.postgres.schema, str(INSTANCE))
        digest = blake2b("\n".join(sorted(consumers)).encode(), digest_size=8).hexdigest()
        self._lease = f"purge {digest}"
        self._purger = Purger(access.lend, settings, consumers, streams(client))
        self._logged: set[str] = set()

    async def run(self) -> None:
        """Purge until cancelled. What goes wrong is tried again the next time."""
        await anyio.sleep(min(FIRST_S, self._interval_s))
        while True:
            try:
                await self.step()
            except ArchiveFailed as error:
                _count("archive")
                self._log_once(f"retention: {error}", logging.WARNING)
                announce("purge.failed")
            except BrokerError as error:
                _count("stream")
                log.debug("the purge stopped: %s", error)
            except Exception as error:  # an outage is told by the gate; anything else is a fault of ours
                if not is_transient(error):
                    raise
                _count("database")
            await anyio.sleep(self._interval_s)

    async def step(self) -> PurgeReport | None:
        """Purge, unless another process does or has."""
        async with self._access.lend() as connection:
            if await self._leases.acquire(connection, self._lease, self._interval_s) is None:
                return None
        report = await self._purger.run()
        for one in report.went:
            metrics.add(instruments.PURGED, one.rows, {names.WHAT: one.table})
            log.info(
                "retention: %d rows of %s%s removed",
                one.rows,
                one.table,
                f", {one.consumer}" * bool(one.consumer),
            )
        for held in report.held:
            self._log_once(f"retention: nothing of {held.consumer} goes: {held.why}", logging.INFO)
        return report

    def _log_once(self, text: str, level: int) -> None:
        """Log it once, however often it is so."""
        if text not in self._logged:
            self._logged.add(text)
            log.log(level, text, extra=_ABOUT if level >= logging.WARNING else None)


def _count(what: str) -> None:
    """Count that a purge stopped, and because of what."""
    metrics.add(instruments.PURGE_FAILURES, 1, {names.WHAT: what})


def streams(client: Client) -> Streams:
    """Return what asks for a stream's configuration; None where there is none to be had."""

    async def config(name: str) -> StreamConfig | None:
        try:
            return (await api.stream(client, name)).config
        except BrokerError:
            return None

    return config
