"""When so many keys fail at once that something else than the events must be wrong. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.states import Cause

if TYPE_CHECKING:
    from projectionist.core.settings.settings import BreakerLimits
    from projectionist.runner.batch.types import BatchResult
    from projectionist.runner.decoding.delivery import Delivery

LEAST = 20
"""So many keys must have failed before their share says anything."""
PROBED = 20
"""So many keys are tried before a probe has gone through."""


class BatchFailures(msgspec.Struct, frozen=True):
    """Holds what one batch told."""

    at: float
    failed: frozenset[str]
    tried: int


def seen(applied: Iterable[BatchResult], at: float) -> BatchFailures:
    """Return the keys on which handlers failed, among how many that were tried. Gaps are no failures."""
    failed: set[str] = set()
    tried = 0
    for one in applied:
        tried += one.tried
        failed |= {_key(p.delivery) for p in one.writes.parked if p.cause is Cause.FAILED}
        failed |= {_key(delivery) for delivery, _ in one.writes.failed_again}
    return BatchFailures(at, frozenset(failed), tried)


def _key(delivery: Delivery) -> str:
    return delivery.id if delivery.aggregate is None else delivery.aggregate


class Window:
    """The last while of one consumer in one process. Batches without a failure cost it next to nothing."""

    def __init__(self, policy: BreakerLimits) -> None:
        self._policy = policy
        self._seen: deque[BatchFailures] = deque()
        self._tried = 0

    def add(self, one: BatchFailures) -> str:
        """Take in a batch; why the breaker has to open, or nothing."""
        self._seen.append(one)
        self._tried += one.tried
        while self._seen[0].at < one.at - self._policy.window_s:
            self._tried -= self._seen.popleft().tried
        if not one.failed:
            return ""
        keys: set[str] = set().union(*(each.failed for each in self._seen))
        if len(keys) >= self._policy.max_failing_keys or (
            len(keys) >= LEAST and len(keys) >= self._policy.failure_ratio * self._tried
        ):
            return f"{len(keys)} keys failed within {self._policy.window_s:g} s"
        return ""

    def clear(self) -> None:
        """Forget what was before a breaker opened."""
        self._seen.clear()
        self._tried = 0


class Probe:
    """The first keys after a pause: whether the trouble is over."""

    def __init__(self, policy: BreakerLimits) -> None:
        self._allowed = max(1, int(policy.failure_ratio * PROBED))
        self._failed: set[str] = set()
        self._tried = 0

    def add(self, one: BatchFailures) -> bool | None:
        """Take in a batch; whether the probe has gone through, or None while it is too early to say."""
        self._failed |= one.failed
        self._tried += one.tried
        if len(self._failed) > self._allowed:
            return False
        return True if self._tried >= PROBED else None
