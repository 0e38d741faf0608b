"""Steps from events in a line or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from projectionist.projections import Envelope, definition
from projectionist.projections.event import AnyEvent, type_of
from projectionist.projections.folding.fold import FoldResult, fold
from projectionist.projections.folding.step import Step, prepared


def steps_of(cls: type, events: Sequence[tuple[str, AnyEvent]]) -> list[Step]:
    """A step for each (aggregate id, event), in order."""
    return [step_of(cls, index, aggregate_id, event) for index, (aggregate_id, event) in enumerate(events)]


def step_of(cls: type, index: int, aggregate_id: str, event: AnyEvent) -> Step:
    """One step."""
    kind = type_of(type(event)) or ""
    envelope = Envelope(source="test", id=f"e-{index}", type=kind, aggregate_id=aggregate_id)
    return prepared(
        definition(cls), index, kind, event, lambda: envelope, f"/{aggregate_id}", aggregate_id, index + 1
    )


def folded(
    cls: type,
    *events: tuple[str, AnyEvent],
    loaded: Mapping[Any, tuple[Any, ...]] | None = None,
) -> FoldResult:
    """The fold of these events over `loaded` rows."""
    return fold(definition(cls), steps_of(cls, events), loaded or {})
