"""Which Intent classes a handler may answer with, as far as its annotation says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args, get_type_hints

from projectionist.outbox.intent import Intent


def mentioned_intents(handler: Callable[..., Any]) -> frozenset[type[Intent]]:
    """The Intent classes in the handler's return annotation; none where there is none that resolves."""
    try:
        answer = get_type_hints(handler).get("return")
    except (NameError, TypeError):  # names known to type checkers alone
        return frozenset()
    return frozenset(_intents_in(answer))


def _intents_in(hint: Any) -> Iterator[type[Intent]]:
    if isinstance(hint, type) and issubclass(hint, Intent) and hint is not Intent:
        yield hint
    for inner in get_args(hint):
        yield from _intents_in(inner)
