"""Upcasting: from the shape an old event has in the stream to the newest one, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from projectionist.core.errors import DefinitionError
from projectionist.projections.errors import EventError

if TYPE_CHECKING:
    from projectionist.projections.event import Event

Document = dict[str, Any]
Step = Callable[[Document], Document]
Upcaster = TypeVar("Upcaster", bound=Step)

_steps: dict[tuple[str, int], dict[str, Step]] = {}
"""By event type and old schema, and then by the module that has the step."""


def upcast(type: str, schema: int) -> Callable[[Upcaster], Upcaster]:  # noqa: A002 the word users write
    """Register the step from `schema` to `schema + 1` of an event type: a pure function, old to new document.

    Steps are chained up to the schema that the Event class declares.
    """

    def register(step: Upcaster) -> Upcaster:
        known = _steps.setdefault((type, schema), {})
        other = known.setdefault(step.__module__, step)
        if _place(other) != _place(step):
            raise DefinitionError(
                f"two upcasters for {type!r} schema {schema}: {_place(other)} and {_place(step)}",
                remedy="Keep one: a step leads from one schema to the next, whoever reads it",
            )
        known[step.__module__] = step
        return step

    return register


def upcasters_of(event: type[Event]) -> Iterator[Step]:
    """The steps known now for this class, oldest first."""
    for schema in range(event.__event_schema__):
        for kind in (event.__event_type__, *event.__event_formerly__):
            step = _found(event, kind, schema)
            if step is not None:
                yield step


def stepped(event: type[Event], kind: str, schema: int, document: Document) -> Document:
    """`document` of type `kind`, one schema newer. Raises EventError."""
    step = _found(event, kind, schema) or _found(event, event.__event_type__, schema)
    if step is None:
        raise EventError(
            f"no way from schema {schema} of {kind!r} to {schema + 1}",
            remedy=f'Write one @upcast("{kind}", schema={schema}) in the module of {event.__name__}',
        )
    try:
        return step(document)
    except Exception as error:  # the step is a user's code and may raise anything
        raised = type(error).__name__
        raise EventError(f"{_place(step)} raised {raised} on schema {schema} of {kind!r}") from error


def _found(event: type[Event], kind: str, schema: int) -> Step | None:
    """The step of the event's own module, else the only one there is."""
    known = _steps.get((kind, schema), {})
    return known.get(event.__module__) or (next(iter(known.values())) if len(known) == 1 else None)


def _place(function: Step) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"
