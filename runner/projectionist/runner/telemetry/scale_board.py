"""What `/scale` answers: how many processes each consumer wants, from look to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from projectionist.core import clock
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.runner.telemetry.scaling import (
    ConsumerLoad,
    MeasuredPace,
    WantedProcesses,
    measured,
    wanted,
)

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings


class ScaleStatus(msgspec.Struct, frozen=True):
    """Says how many processes are wanted: of each consumer, and of a process that runs them all."""

    wanted: int | None
    """Of the consumer that wants most; None where it is not known of any, or was known too long ago."""
    looked_s: float | None
    """Seconds since the last look."""
    consumers: dict[str, WantedProcesses]


class ScaleBoard:
    """What an observer knows of the loads of its consumers."""

    def __init__(self, settings: Settings, valid_s: float) -> None:
        self._settings, self._valid_s = settings, valid_s
        self._seen: dict[str, tuple[ConsumerLoad, MeasuredPace]] = {}
        self._wanted: dict[str, WantedProcesses] = {}
        self._looked_at: float | None = None

    def note(self, name: str, load: ConsumerLoad) -> None:
        """Take down how a consumer stands."""
        before, pace = self._seen.get(name, (load, MeasuredPace()))
        pace = measured(pace, before, load)
        self._seen[name] = load, pace
        policy = self._settings.policy(name)
        found = wanted(load, pace, least=policy.alerts.min_runners, catch_up_s=policy.catch_up_s)
        self._wanted[name] = found

    def looked(self) -> None:
        """Note that a look over all consumers is over, and show what came of it."""
        self._looked_at = clock.now()
        known = {name: found for name, found in self._wanted.items() if found.wanted is not None}
        metrics.show(
            instruments.WANTED,
            [(float(found.wanted or 0), {names.CONSUMER: name}) for name, found in known.items()],
        )
        behind = {name: found.behind_s for name, found in self._wanted.items() if found.behind_s is not None}
        metrics.show(
            instruments.BEHIND, [(seconds, {names.CONSUMER: name}) for name, seconds in behind.items()]
        )

    def told(self) -> tuple[bool, ScaleStatus]:
        """Return what is wanted, and whether that can be gone by: an old figure is none."""
        looked_s = None if self._looked_at is None else clock.now() - self._looked_at
        fresh = looked_s is not None and looked_s <= self._valid_s
        known = [found.wanted for found in self._wanted.values() if found.wanted is not None]
        most = max(known) if fresh and known else None
        return most is not None, ScaleStatus(most, looked_s, self._wanted)
