"""Upcasting: from the shape an old event has in the stream to the newest one, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from math import inf
from types import NoneType
from typing import Any, TypeVar, get_origin

from projectionist.core.errors import DefinitionError
from projectionist.core.user_errors import RAISED, is_ours
from projectionist.projections.annotations import returned
from projectionist.projections.errors import EventError

Document = dict[str, Any]
Step = Callable[[Document], Document]
Upcaster = TypeVar("Upcaster", bound=Step)

ONE = "Return one dict. An event cannot be split: publish new types from now on, and handle the old one beside them"

_steps: dict[tuple[str, int], dict[str, Step]] = {}
"""By event type and old schema, and then by the module that has the step."""


def upcast(type: str, schema: int) -> Callable[[Upcaster], Upcaster]:  # noqa: A002 the word users write
    """Register the step from `schema` to `schema + 1` of an event type: a pure function, old to new document.

    Steps are chained up to the schema that the Event class declares.
    """

    def register(step: Upcaster) -> Upcaster:
        answer = returned(step)
        if (get_origin(answer) or answer) in (list, tuple, set, NoneType):
            raise DefinitionError(
                f"the upcaster {_place(step)} returns {answer}, and an old event becomes one new document",
                remedy=ONE,
            )
        known = _steps.setdefault((type, schema), {})
        other = known.setdefault(step.__module__, step)
        if _place(other) != _place(step):
            raise DefinitionError(
                f"two upcasters for {type!r} schema {schema}: {_place(other)} and {_place(step)}",
                remedy="Keep one: a step leads from one schema to the next, for every class that reads it",
            )
        known[step.__module__] = step
        return step

    return register


def upcasters_of(event: Any) -> Iterator[Step]:
    """Yield the steps known now for this class, oldest first."""
    for schema in range(event.__event_schema__):
        for kind in (event.__event_type__, *event.__event_formerly__):
            step = _found(event, kind, schema)
            if step is not None:
                yield step


def stepped(event: Any, kind: str, schema: int, document: Document) -> Document:
    """Bring `document` of type `kind` up by one schema. Raises EventError."""
    step = _step(event, kind, schema)
    if step is None:
        raise _no_step(event, kind, schema)
    try:
        made = step(document)
    except RAISED as error:  # the step is a user's code and may raise anything
        if is_ours(error):
            raise
        raised = type(error).__name__
        raise EventError(f"{_place(step)} raised {raised} on schema {schema} of {kind!r}") from error
    if not isinstance(made, dict):
        raise EventError(
            f"{_place(step)} made a {type(made).__name__} of schema {schema} of {kind!r}, and no document",
            remedy=ONE,
        )
    return made


def steps_from(event: Any, kind: str, schema: int) -> list[str]:
    """Return where the steps are written that bring this schema up, as far as they lead."""
    steps = (_step(event, kind, at) for at in range(schema, event.__event_schema__))
    return [_place(step) for step in takewhile(bool, steps) if step is not None]


def _step(event: Any, kind: str, schema: int) -> Step | None:
    return _found(event, kind, schema) or _found(event, event.__event_type__, schema)


def _no_step(event: Any, kind: str, schema: int) -> EventError:
    if several := _nearest(event, kind, schema):
        return EventError(
            f"{' and '.join(map(_place, several))} lead from schema {schema} of {kind!r} to {schema + 1}, and none of "
            f"them is the module's of {event.__name__}",
            remedy=f'Keep one of them, or write one @upcast("{kind}", schema={schema}) in {event.__module__}',
        )
    return EventError(
        f"no way from schema {schema} of {kind!r} to {schema + 1}",
        remedy=f'Write one @upcast("{kind}", schema={schema}) in the module of {event.__name__}',
    )


def _found(event: Any, kind: str, schema: int) -> Step | None:
    """Find the step of the event's own module, else the nearest one, by packages, where no other is as near."""
    near = _nearest(event, kind, schema)
    return near[0] if len(near) == 1 else None


def _nearest(event: Any, kind: str, schema: int) -> list[Step]:
    known, own = _steps.get((kind, schema), {}), event.__module__.split(".")
    shared = {module: _shared(module.split("."), own) for module in known}
    most = max(shared.values(), default=0)
    return [step for module, step in known.items() if shared[module] == most]


def _shared(one: Sequence[str], other: Sequence[str]) -> float:
    """Count the packages two modules have in common, from the outermost; a module has more with itself."""
    if one == other:
        return inf
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _place(function: Step) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"
