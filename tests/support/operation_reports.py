"""An operation as its row says it, for tests of what is made of that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from projectionist.runner.operations.operation import OperationKind, OperationReport

BEGAN = datetime(2026, 3, 12, 14, 31, 40, tzinfo=UTC)


def operation_report(**given: Any) -> OperationReport:
    """An operation that has gone on for ten seconds, as its row says it."""
    usual: dict[str, Any] = {
        "number": 17,
        "kind": OperationKind.RETRY_PARKED,
        "chosen": {},
        "who": "ann",
        "reason": "mended",
        "rate": 200.0,
        "patience_s": 30.0,
        "began": BEGAN,
        "beat": BEGAN + timedelta(seconds=10),
        "matched": 100,
        "done": 0,
        "failed": 0,
        "refused": 0,
        "tried": 0,
        "owner": "a host",
        "silent_s": 0.2,
        "stop_asked_by": None,
        "stop_reason": None,
        "ended": None,
        "outcome": None,
        "note": None,
        "phase": None,
        "pace": None,
        "is_carried_out": True,
    }
    return OperationReport(**usual | given)
