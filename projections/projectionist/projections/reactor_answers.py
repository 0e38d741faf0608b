"""Takes a handler's answer apart: intents by slot, and whether the row is to be deleted."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from projectionist.outbox.intents.intent import EmittedIntent, Intent, Slotted, content_of, options_of
from projectionist.projections.handler_results import Delete


class HandlerResult(msgspec.Struct, gc=False):
    """A handler's answer, taken apart."""

    intents: list[EmittedIntent]
    delete: bool = False


IDLE = HandlerResult([])
"""The answer of a handler that was not called, because its condition did not hold: compared by identity."""


def answer_of(result: object) -> HandlerResult:
    """Take apart what a handler returned; a generator runs here. Raises TypeError for what is no answer."""
    if isinstance(result, Intent):  # nearly always
        return HandlerResult([EmittedIntent(options_of(result).slot, result, content_of(result))])
    answer = HandlerResult([])
    _take(result, answer)
    return answer


def _take(result: object, answer: HandlerResult) -> None:
    if isinstance(result, Intent):
        _add(options_of(result).slot, result, answer)
    elif isinstance(result, Slotted):
        _add(result.slot, result.intent, answer)
    elif isinstance(result, Delete) or result is Delete:
        answer.delete = True
    elif isinstance(result, Iterable) and not isinstance(result, str | bytes | dict):
        for item in result:
            _take(item, answer)
    elif result is not None:
        raise TypeError(
            f"a handler answered with a {type(result).__name__}: return or yield Intents, Delete() or nothing"
        )


def _add(slot: str, intent: Intent, answer: HandlerResult) -> None:
    if answer.intents and any(slot == one.slot for one in answer.intents):
        raise TypeError(
            f"two intents in slot {slot!r} from one event: name the second, "
            f'{type(intent).__name__}(…).slot("second")'
        )
    answer.intents.append(EmittedIntent(slot, intent, content_of(intent)))
