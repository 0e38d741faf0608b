"""The heartbeat of a consumer in one process: says that it lives, how its batches go, and what the broker holds."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Protocol

import anyio

from projectionist.core.errors import ProjectionistError
from projectionist.core.signals import announce
from projectionist.core.trouble import is_transient
from projectionist.runner.rearm import Rearm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projectionist.runner.consumer import Consumer
    from projectionist.runner.office import Office
    from projectionist.runner.session import Session
    from projectionist.runner.source import Source

log = logging.getLogger("projectionist.runner")


class Paced(Protocol):
    """What settles batches."""

    durations: deque[float]
    batches: int


class Heart:
    """Beats for one consumer until it is cancelled; a beat that fails is told by its absence."""

    def __init__(
        self,
        consumer: Consumer,
        office: Office,
        paced: Paced,
        source: Source,
        session: Session,
        interval_s: float,
    ) -> None:
        self._consumer = consumer
        self._office = office
        self._paced = paced
        self._source = source
        self._session = session
        self._interval_s = interval_s
        self._rearm = Rearm(consumer, office)

    async def run(self) -> None:
        """Beat at every interval."""
        while True:
            await self._beat("running")
            await anyio.sleep(self._interval_s)

    async def stop(self) -> None:
        """Say that this process runs the consumer no more."""
        with anyio.move_on_after(1):
            await self._beat("stopped")

    async def _beat(self, state: str) -> None:
        lag = unacked = None
        try:
            if state == "running":
                pending = await self._source.pending()
                lag, unacked = pending.num_pending, pending.num_ack_pending
        except ProjectionistError:
            log.debug("%s: the broker does not say how far it is", self._consumer.definition.name)
        durations = sorted(self._paced.durations)
        try:
            await self._office.beat(
                *(self._consumer.runner, state, self._session.backend_pid, self._paced.batches),
                *(percentile(durations, 0.5), percentile(durations, 0.99), lag, unacked),
            )
            if state == "running":
                await self._rearm.step()
        except Exception as error:  # an outage is told by the session; anything else is a fault of ours
            if not is_transient(error):
                raise
        announce("heart.beat")


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which `share` of the ordered durations lie, in milliseconds; None without any."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else None
