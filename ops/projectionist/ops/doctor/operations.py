"""Operations that have not ended: whether somebody carries each out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from projectionist.ops.doctor.check import Check, attention, well
from projectionist.runner.operations.operation import OperationReport, why_abandoned


def checks(found: Iterable[OperationReport]) -> Iterator[Check]:
    """Check each."""
    for one in found:
        if one.is_abandoned:
            yield attention("operations", f"operation {one.number}", *why_abandoned(one))
        else:
            yield well("operations", f"operation {one.number}", f"{one.owner} carries it out")
