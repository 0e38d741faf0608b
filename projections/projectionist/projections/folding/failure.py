"""Failure: the error of one step, in a form that can be stored and read by a person."""

from __future__ import annotations

import traceback
from enum import StrEnum

import msgspec

from projectionist.core.printable_text import storable
from projectionist.core.user_errors import RAISED, is_ours
from projectionist.projections.folding.step import Step
from projectionist.projections.handler_results import Refuse, Retry

MOST_MESSAGE = 1_000
MOST_FRAMES = 8


class FailureKind(StrEnum):
    """The way out of a failure: new code or a person, another try, or a person by the handler's own word."""

    RAISED = "raised"
    RETRY = "retry"
    REFUSED = "refused"


class Failure(msgspec.Struct, frozen=True):
    """The reason why a step was not applied."""

    step: Step
    kind: FailureKind
    error_class: str
    message: str
    stack: str
    """The innermost frames, without values."""
    after: float | None = None
    """Seconds the handler asked to wait, for RETRY."""


def failure_of(step: Step, error: BaseException, row: str = "") -> Failure:
    """Make the failure of `step` from `error`; `row` names the one of several that failed."""
    kind, after = FailureKind.RAISED, None
    if isinstance(error, Retry):
        kind, after = FailureKind.RETRY, error.after
    elif isinstance(error, Refuse):
        kind = FailureKind.REFUSED
    return Failure(
        step=step,
        kind=kind,
        error_class=_named(error),
        message=f"{storable(row[:MOST_MESSAGE])}: {_message(error)}" if row else _message(error),
        stack=_stack(error),
        after=after,
    )


def _named(error: BaseException) -> str:
    kind = type(error)
    known = kind.__module__.partition(".")[0] in ("builtins", "projectionist")
    return kind.__qualname__ if known else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except RAISED as wrong:  # an exception whose own text cannot be made must still be recorded
        if is_ours(wrong):
            raise
        text = "(its message cannot be shown)"
    return storable(text[:MOST_MESSAGE])


def _stack(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-MOST_FRAMES:]
    return storable("".join(traceback.format_list(frames)))
