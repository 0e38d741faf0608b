"""One percentile of ordered values. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value below which `share` of the ordered durations lie, in milliseconds; None without any."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else None
