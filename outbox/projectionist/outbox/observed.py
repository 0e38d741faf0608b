"""Where the outbox stands, as metrics: looked up in the database now and then, shown when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from projectionist.core.signals import announce
from projectionist.core.telemetry import meters, names
from projectionist.outbox.link import Away, Link

if TYPE_CHECKING:
    from projectionist.core.db import Row
    from projectionist.core.settings import Settings
    from projectionist.core.telemetry.meters import Shown


class Observer:
    """Looks, until cancelled, where the outbox stands."""

    def __init__(self, settings: Settings) -> None:
        self._every_s = settings.telemetry.every_s
        self._link = Link(settings.postgres, "relay (telemetry)")

    async def run(self) -> None:
        """Look now, and then every so often."""
        try:
            while True:
                try:
                    await self._look()
                    answers = True
                except Away:
                    answers = False
                meters.show(names.REACHABLE, [(float(answers), {names.SERVER: names.POSTGRESQL})])
                announce("telemetry.observed")
                await anyio.sleep(self._every_s)
        finally:
            await self._link.close()

    async def _look(self) -> None:
        async with self._link.lent() as connection:
            rows = await connection.fetch(self._link.sql["observed"])
            circuits = await connection.fetch(self._link.sql["observed_circuits"])
        nothing: Shown = [(0.0, {})]
        meters.show(names.INTENTS, [(row["n"], _of(row)) for row in rows] or nothing)
        ages = [(max(0.0, row["oldest_s"]), _of(row)) for row in rows]
        meters.show(names.INTENTS_AGE, ages or nothing)
        meters.show(names.CIRCUITS, [(row["n"], _of(row)) for row in circuits] or nothing)


def _of(row: Row) -> dict[str, str]:
    state = {names.STATE: row["state"]}
    return state if row["provider"] is None else state | {names.PROVIDER: row["provider"]}
