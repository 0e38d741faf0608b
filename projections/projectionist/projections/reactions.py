"""What a handler answered: intents by slot, and whether the row goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

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
    slots: set[str] = set()
    for item in _flat(result):
        if isinstance(item, Delete) or item is Delete:
            answer.delete = True
            continue
        slot, intent = (
            (item.slot, item.intent) if isinstance(item, Slotted) else (options_of(item).slot, item)
        )
        if slot in slots:
            raise TypeError(
                f"two intents in slot {slot!r} from one event: name the second, "
                f'{type(intent).__name__}(…).slot("second")'
            )
        slots.add(slot)
        answer.intents.append((slot, intent, frozen_body(intent)))
    return answer


def _flat(result: Any) -> Iterator[Any]:
    if isinstance(result, Intent | Slotted | Delete) or result is Delete:
        yield result
    elif isinstance(result, Iterable) and not isinstance(result, str | bytes | dict):
        for item in result:
            yield from _flat(item)
    elif result is not None:
        raise TypeError(
            f"a handler answered with a {type(result).__name__}: return or yield Intents, Delete() or nothing"
        )
