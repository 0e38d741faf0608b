"""Reads handlers' annotations: the Intent classes a handler may answer with, and types that are no answer."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from projectionist.outbox.intents.intent import Intent, Scheduled, Slotted
from projectionist.outbox.intents.schedule import Cancel
from projectionist.projections.handler_results import Delete

UNKNOWN = Any


def returned(function: Callable[..., Any]) -> Any:
    """Return the return annotation; Any where there is none, or none that resolves: names for type checkers alone."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        return UNKNOWN
    return hints.get("return", UNKNOWN)


def mentioned_intents(handler: Callable[..., Any]) -> frozenset[type[Intent]]:
    """Return the Intent classes in the handler's return annotation; none where it does not resolve."""
    return frozenset(_intents_in(returned(handler)))


def no_answer(handler: Callable[..., Any]) -> Any:
    """Return the first part of the return annotation that is no answer of a handler; None if there is none."""
    return _no_answer(returned(handler))


def _intents_in(hint: Any) -> Iterator[type[Intent]]:
    if isinstance(hint, type) and issubclass(hint, Intent) and hint is not Intent:
        yield hint
    for inner in get_args(hint):
        yield from _intents_in(inner)


def _no_answer(hint: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return next((wrong for one in get_args(hint) if (wrong := _no_answer(one)) is not None), None)
    if origin is Annotated:
        return _no_answer(get_args(hint)[0])
    kind = origin or hint
    if not isinstance(kind, type) or kind in (object, type, type(None), Any):
        return None  # Any, a TypeVar, or the class Delete itself may be an answer
    if issubclass(kind, Intent | Slotted | Scheduled | Cancel | Delete):
        return None
    several = issubclass(kind, Iterable | AsyncIterable) and not issubclass(kind, str | bytes | dict)
    return None if several else hint
