"""What a handler answered: intents by slot, and whether the row goes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from projectionist.outbox.intent import Intent, Slotted, options_of
from projectionist.outbox.keys import frozen_body
from projectionist.projections.outcome import Delete


class Answer(msgspec.Struct, gc=False):
    """A handler's answer, taken apart."""

    intents: list[tuple[str, Intent, bytes]]
    """Slot, intent, and its content as it was when the handler gave it."""
    delete: bool = False


IDLE = Answer([])
"""The answer of a handler that was not called, because its condition did not hold: compared by identity."""


def answer_of(result: object) -> Answer:
    """Take apart what a handler returned; a generator runs here. Raises TypeError for what is no answer."""
    answer = Answer([])
    _take(result, answer, set())
    return answer


def _take(result: object, answer: Answer, slots: set[str]) -> None:
    if isinstance(result, Intent):
        _add(options_of(result).slot, result, answer, slots)
    elif isinstance(result, Slotted):
        _add(result.slot, result.intent, answer, slots)
    elif isinstance(result, Delete) or result is Delete:
        answer.delete = True
    elif isinstance(result, Iterable) and not isinstance(result, str | bytes | dict):
        for item in result:
            _take(item, answer, slots)
    elif result is not None:
        raise TypeError(
            f"a handler answered with a {type(result).__name__}: return or yield Intents, Delete() or nothing"
        )


def _add(slot: str, intent: Intent, answer: Answer, slots: set[str]) -> None:
    if slot in slots:
        raise TypeError(
            f"two intents in slot {slot!r} from one event: name the second, "
            f'{type(intent).__name__}(…).slot("second")'
        )
    field = options_of(intent).destination
    if field is not None and getattr(intent, field) in (None, ""):
        raise ValueError(f"{type(intent).__name__}.{field} is the intent's destination, and is empty")
    slots.add(slot)
    answer.intents.append((slot, intent, frozen_body(intent)))
