"""Which event types are counted by name."""

from __future__ import annotations

from collections import Counter

from projectionist.runner.batch.counted_types import MOST, OTHER, CountedTypes


def test_types_beyond_the_first_few_are_counted_together_and_handled_ones_never() -> None:
    kinds = CountedTypes(["order.placed"])
    strange = Counter({(f"strange.{number}", "ignored"): 2 for number in range(10 * MOST)})

    counts = kinds.bounded(strange)
    later = kinds.bounded(Counter({("order.placed", "applied"): 1, ("newer", "ignored"): 1, ("", "x"): 1}))

    assert counts.total() == strange.total()
    assert len(counts) == MOST + 1
    assert counts[OTHER, "ignored"] == 2 * 9 * MOST
    assert later == {("order.placed", "applied"): 1, (OTHER, "ignored"): 1, ("", "x"): 1}
    assert kinds.name("strange.0") == "strange.0"
