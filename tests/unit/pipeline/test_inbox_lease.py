"""The lease behind claims is as long as batches are slow, and no outage makes it longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from projectionist.core.settings.settings import Run, Settings
from projectionist.runner.batch.types import Batch, BatchResult
from projectionist.runner.batch.writes import BatchWrites
from projectionist.runner.pipeline import inbox_worker
from projectionist.runner.pipeline.inbox_worker import SLOWEST, Drain

pytestmark = pytest.mark.asyncio

LEASE_S = 1.0
WAITED_S = 100.0


def drain(monkeypatch: pytest.MonkeyPatch, took_s: float) -> Drain:
    """Return a drain whose batches wait through an outage, and then take so long."""
    now = [0.0]
    monkeypatch.setattr(inbox_worker, "time", SimpleNamespace(monotonic=lambda: now[0]), raising=False)
    monkeypatch.setattr(inbox_worker, "LeaseRenewer", lambda *_: None)

    async def settle(_: Batch) -> list[BatchResult]:
        now[0] += WAITED_S + took_s
        return [BatchResult(writes=BatchWrites(frozenset()), delay=None, took_s=took_s)]

    async def nothing(*_: Any) -> None:
        """Do nothing afterwards."""

    anything: Any = SimpleNamespace(number=1, runner=1, definition=SimpleNamespace(name="Orders"))
    settler: Any = SimpleNamespace(suspicion=None, settle=settle)
    settings = msgspec.structs.replace(Settings(), run=Run(lease_s=LEASE_S))
    return Drain(anything, anything, settler, anything, settings, anything, nothing, 1.0)


@pytest.mark.parametrize(
    ("took_s", "lease_s"), [(0.01, LEASE_S), (2.0, SLOWEST * 2.0)], ids=["quick batches", "slow batches"]
)
async def test_a_lease_grows_with_slow_batches_and_not_with_outages(
    monkeypatch: pytest.MonkeyPatch, took_s: float, lease_s: float
) -> None:
    made = drain(monkeypatch, took_s)

    await made._settle(Batch())

    assert made.lease_s == lease_s
