"""A consumer as an erase goes about it: with its views, and a plan for the rows of each."""

from __future__ import annotations

from typing import Any

import msgspec

from projectionist.runner.admin.erased_rows import RowsPlan


class ErasingConsumer(msgspec.Struct):
    """A consumer with its views, and what becomes of the rows of each."""

    row: Any
    """The registration of one of its views, for what is the consumer's."""
    views: list[Any]
    plans: list[RowsPlan] = []
    settled: int = 0
    """Counts the events that are to be emptied in its inbox."""
    basis: object = None
    """What was applied of the target when the rows were looked for."""

    @property
    def kept(self) -> list[int]:
        """Return the kept generations of all views."""
        return [generation for view in self.views for generation in view["kept"]]

    @property
    def told(self) -> str:
        """Return what becomes of the rows; of several views, each by its name."""
        if len(self.views) == 1:
            return str(self.plans[0])
        named = zip(self.views, self.plans, strict=True)
        return "; ".join(f"{view['view_name']}: {plan}" for view, plan in named if str(plan))

    @property
    def stand(self) -> list[tuple[int, str, int]]:
        """Return what the plans hold for."""
        return [(view["view"], view["state"], view["generation"]) for view in self.views]
