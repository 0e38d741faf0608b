"""The heartbeat of a consumer in one process, and beside it what is done every few seconds but may have to wait."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Protocol

import anyio

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.core.signals import announce
from projectionist.core.trouble import is_transient
from projectionist.runner.jetstream import BrokerError
from projectionist.runner.rearm import Rearm

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from projectionist.runner.careful import Suspicion
    from projectionist.runner.consumer import Consumer
    from projectionist.runner.office import Office
    from projectionist.runner.source import Source
    from projectionist.runner.standing import Standing

log = logging.getLogger("projectionist.runner")

ASKING_S = 1.0
"""How long a beat waits for the broker's word, which it can do without."""
STOPPING_S = 1.0


SWEEP_S = 300.0


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
        interval_s: float,
        standing: Standing,
        suspicion: Suspicion,
    ) -> None:
        self._consumer = consumer
        self._office = office
        self._paced = paced
        self._source = source
        self._interval_s = interval_s
        self._standing = standing
        self._suspicion = suspicion
        self._rearm = Rearm(consumer, office)
        self._sweeps_at = 0.0

    async def run(self) -> None:
        """Beat at every interval; what else there is to do never keeps a beat waiting."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._chores)
            while True:
                await self._beat("running")
                await anyio.sleep(self._interval_s)

    async def stop(self) -> None:
        """Say that this process runs the consumer no more, and how far it was."""
        with anyio.move_on_after(STOPPING_S):
            await self._quietly(self._standing.record)
        with anyio.move_on_after(STOPPING_S):
            await self._beat("stopped")

    async def _chores(self) -> None:
        while True:
            await anyio.sleep(self._interval_s)
            await self._quietly(self._look_for_the_dead)
            await self._quietly(self._rearm.step)
            await self._quietly(self._sweep)
            await self._quietly(self._standing.record)

    async def _look_for_the_dead(self) -> None:
        self._suspicion.on = await self._office.unclean(self._consumer)

    async def _quietly(self, chore: Callable[[], Awaitable[None]]) -> None:
        """A chore that an outage keeps from its end is done the next time."""
        try:
            await chore()
        except BrokerError as error:
            log.debug("%s: %s", self._consumer.definition.name, error)
        except Exception as error:  # an outage is told by the gate; anything else is a fault of ours
            if not is_transient(error):
                raise

    async def _beat(self, state: str) -> None:
        lag = unacked = None
        try:
            if state == "running":
                with anyio.move_on_after(ASKING_S):
                    pending = await self._source.pending()
                    lag, unacked = pending.num_pending, pending.num_ack_pending
        except ProjectionistError:
            log.debug("%s: the broker does not say how far it is", self._consumer.definition.name)
        durations = sorted(self._paced.durations)
        try:
            await self._office.beat(
                *(self._consumer.runner, state, self._paced.batches),
                *(percentile(durations, 0.5), percentile(durations, 0.99), lag, unacked),
            )
        except Exception as error:  # an outage is told by the gate; anything else is a fault of ours
            if not is_transient(error):
                raise
        announce("heart.beat")

    async def _sweep(self) -> None:
        """Now and then, drop generations that were kept long enough."""
        if clock.now() >= self._sweeps_at:
            self._sweeps_at = clock.now() + SWEEP_S
            await self._office.sweep(self._consumer)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which `share` of the ordered durations lie, in milliseconds; None without any."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else None
