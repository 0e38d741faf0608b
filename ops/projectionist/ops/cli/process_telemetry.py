"""Around a process that runs for long: what it exports, who may ask how it is, what systemd hears."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import TaskStatus

from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.telemetry import health_server as healths
from projectionist.core.telemetry import instruments, metrics
from projectionist.core.telemetry.health_server import Health
from projectionist.core.telemetry.otel_setup import exporting

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.core.telemetry.otel_setup import Scrape


class Listener(Protocol):
    """Tells, until cancelled, how a process is."""

    async def __call__(self, health: Health, scrape: Scrape | None, *, task_status: TaskStatus[None]) -> None:
        """Begin, say so to `task_status`, and go on."""


class HealthListener:
    """Answers as `[telemetry]` says: at `listen`, and to systemd."""

    def __init__(self, settings: Settings) -> None:
        self._telemetry = settings.telemetry

    async def __call__(self, health: Health, scrape: Scrape | None, *, task_status: TaskStatus[None]) -> None:
        """Answer whoever asks."""
        told = self._telemetry
        await healths.answer(told.listens, health, scrape, told.hosts, task_status=task_status)


@asynccontextmanager
async def telling(settings: Settings, service: str, answer: Listener | None = None) -> AsyncIterator[Health]:
    """Export and listen as `[telemetry]` says, for the length of the block; the block says when it has begun.

    It begins when the process can be asked: an address that somebody else has is refused before anything is done. With
    `answer` somebody else tells how it is.
    """
    health = Health()
    with unwrap_single_exception(), exporting(settings.telemetry, service) as scrape:
        metrics.show(instruments.POLICY, metrics.thresholds(settings.telemetry.alerts))
        async with anyio.create_task_group() as beside:
            await beside.start(_asked, answer or HealthListener(settings), health, scrape)
            yield health
            beside.cancel_scope.cancel()


async def _asked(
    answer: Listener, health: Health, scrape: Scrape | None, *, task_status: TaskStatus[None]
) -> None:
    await answer(health, scrape, task_status=task_status)
