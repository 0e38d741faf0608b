"""How long a build waits, where nobody needs another time by a setting."""

from __future__ import annotations

import msgspec

from projectionist.core.retry_policy import RetryPolicy
from projectionist.runner.database.barrier import SHORT
from projectionist.runner.history.fold_pace import KEPT_S
from projectionist.runner.rebuild.build_lease import RENEWED_S, TTL_S

RATES = 360
"""So many figures of how fast a build has gone are kept: those of an hour."""


class RebuildTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one build."""

    lease_s: float = TTL_S
    renewed_s: float = RENEWED_S
    measured_s: float = 10.0
    """How often it is put on record how fast it goes."""
    kept_s: float = KEPT_S
    holds: RetryPolicy = SHORT
    """How long a swap keeps batches waiting: longer with each try that was too short."""
    tries: RetryPolicy = RetryPolicy(initial_s=0.1, maximum_s=5.0)
    """How soon a swap that was left is tried again: each try keeps batches and readers waiting."""
    readers_s: float = 60.0
    """How long readers from before the shadow had caught up are waited for."""
    unseen_s: float = 5.0
    """So long a standby that has just connected may take to say what its readers see."""
    outrun_s: float = 60.0
    """After so long without a smaller round catching up will not end."""


USUAL = RebuildTimes()
"""The times outside of tests."""
