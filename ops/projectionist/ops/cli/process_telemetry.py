"""Around a process that runs for long: what it exports, who may ask how it is, what systemd hears."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from projectionist.core.telemetry import health_server as healths
from projectionist.core.telemetry import instruments, metrics
from projectionist.core.telemetry.health_server import Health
from projectionist.core.telemetry.otel_setup import exporting

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings


@asynccontextmanager
async def telling(settings: Settings, service: str) -> AsyncIterator[Health]:
    """Export and listen as `[telemetry]` says, for the length of the block; the block says when it has begun."""
    health = Health()
    with exporting(settings.telemetry, service) as scrape:
        metrics.show(instruments.POLICY, metrics.thresholds(settings.telemetry.alerts))
        async with anyio.create_task_group() as beside:
            beside.start_soon(
                healths.answer, settings.telemetry.listens, health, scrape, settings.telemetry.hosts
            )
            yield health
            beside.cancel_scope.cancel()
