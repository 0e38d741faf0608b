"""Step: one event on its way through the fold, with its handler and its row's key found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from projectionist.core.user_errors import RAISED, is_ours
from projectionist.projections.compiled.definition import Definition
from projectionist.projections.envelope import Envelope
from projectionist.projections.errors import BadValue
from projectionist.projections.event import AnyEvent
from projectionist.projections.handlers import Handler

Unit = str | int
"""The scope of a failure: an aggregate, or where order does not count, the single step by its index."""


Occurrence = tuple[int, str, AnyEvent, Callable[[], Envelope], str, str | None, int | None]
"""Holds what the steps of all views are made of: place, type, event, envelope, aggregate, its id, version."""


class Step(msgspec.Struct, gc=False):
    """One event on its way through the fold."""

    index: int
    """Its place in the batch: steps run in this order."""
    aggregate: str
    aggregate_id: str | None
    version: int | None
    event: AnyEvent
    handler: Handler
    envelope: Callable[[], Envelope]
    """Made only if a handler asks for it."""
    key: Any
    """The row's key in database form; of a handler of several rows, Keys or a Prefix; or the BadValue that says why
    there is none: the step's failure."""


def prepared(
    definition: Definition,
    index: int,
    kind: str,
    event: AnyEvent,
    envelope: Callable[[], Envelope],
    aggregate: str = "",
    aggregate_id: str | None = None,
    version: int | None = None,
) -> Step:
    """Make the Step of an event of type `kind`, which the definition must know. A bad key fails it in the fold."""
    handler = definition.handlers[kind]
    key = key_of(handler, aggregate_id, event, envelope)
    return Step(
        index=index,
        aggregate=aggregate,
        aggregate_id=aggregate_id,
        version=version,
        event=event,
        handler=handler,
        envelope=envelope,
        key=key,
    )


def key_of(
    handler: Handler, aggregate_id: str | None, event: AnyEvent, envelope: Callable[[], Envelope]
) -> Any:
    """Return the key of an event's row in database form, or its Keys or Prefix, or the BadValue that says why there is
    none."""
    try:
        return handler.row_key(aggregate_id, event, envelope)
    except BadValue as bad:
        return bad
    except RAISED as error:  # key= and each= may be a user's function, whose error is its event's failure
        if is_ours(error):
            raise
        keyword = "key" if handler.each is None else "each"
        wrong = BadValue(f"{keyword}= raised {type(error).__name__}: {error}")
        wrong.__cause__ = error
        return wrong
