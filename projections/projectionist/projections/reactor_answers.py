"""Takes a handler's answer apart: intents and cancels by slot, and whether the row is to be deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from projectionist.outbox.intents.intent import (
    EmittedIntent,
    Intent,
    Scheduled,
    Slotted,
    content_of,
    options_of,
)
from projectionist.outbox.intents.schedule import Cancel, Emitted, EmittedCancel, due_of, slot_of
from projectionist.projections.handler_results import Delete

if TYPE_CHECKING:
    from projectionist.projections.envelope import Envelope


class HandlerResult(msgspec.Struct, gc=False):
    """A handler's answer, taken apart."""

    intents: list[Emitted]
    delete: bool = False


IDLE = HandlerResult([])
"""The answer of a handler that was not called, because its condition did not hold: compared by identity."""


def answer_of(result: object, envelope: Callable[[], Envelope], *, ordered: bool) -> HandlerResult:
    """Take apart what a handler returned; a generator runs here. Raises TypeError for what is no answer.

    The envelope is asked where the event's time or aggregate is needed: for what is to be sent later, or taken back.
    `ordered`: the consumer's events have an order.
    """
    if isinstance(result, Intent):  # nearly always
        return HandlerResult([EmittedIntent(options_of(result).slot, result, content_of(result))])
    answer = HandlerResult([])
    _AnswerParts(answer, envelope, ordered=ordered).take(result)
    return answer


class _AnswerParts:
    def __init__(self, answer: HandlerResult, envelope: Callable[[], Envelope], *, ordered: bool) -> None:
        self._answer, self._envelope, self._ordered = answer, envelope, ordered

    def take(self, result: object) -> None:
        if isinstance(result, Intent):
            self._add(options_of(result).slot, result)
        elif isinstance(result, Slotted):
            self._add(result.slot, result.intent)
        elif isinstance(result, Scheduled):
            self._schedule(result)
        elif isinstance(result, Cancel):
            self._cancel(result)
        elif isinstance(result, Delete) or result is Delete:
            self._answer.delete = True
        elif isinstance(result, Iterable) and not isinstance(result, str | bytes | dict):
            for item in result:
                self.take(item)
        elif result is not None:
            raise TypeError(
                f"a handler answered with a {type(result).__name__}: return or yield Intents, Delete() or nothing"
            )

    def _add(self, slot: str, intent: Intent) -> None:
        self._check_free(slot, intent)
        self._answer.intents.append(EmittedIntent(slot, intent, content_of(intent)))

    def _schedule(self, scheduled: Scheduled) -> None:
        wanted = scheduled.intent
        slot, intent = (
            (wanted.slot, wanted.intent) if isinstance(wanted, Slotted) else (options_of(wanted).slot, wanted)
        )
        self._check_free(slot, intent)
        due = due_of(scheduled, self._envelope().time)
        self._answer.intents.append(EmittedIntent(slot, intent, content_of(intent), due))

    def _cancel(self, cancel: Cancel) -> None:
        envelope, name = self._envelope(), cancel.intent.__name__
        if not self._ordered or envelope.aggregate is None or envelope.version is None:
            what = (
                "its consumer applies events in no order"
                if not self._ordered
                else "the event has no aggregate or no version"
            )
            raise TypeError(f"Cancel({name}) takes back what earlier events asked for, and {what}")
        one = EmittedCancel(slot_of(cancel), cancel.intent)
        if one in self._answer.intents:
            raise TypeError(f"Cancel({name}) twice in slot {one.slot!r} from one event")
        self._answer.intents.append(one)

    def _check_free(self, slot: str, intent: Intent) -> None:
        if any(slot == one.slot and isinstance(one, EmittedIntent) for one in self._answer.intents):
            raise TypeError(
                f"two intents in slot {slot!r} from one event: name the second, "
                f'{type(intent).__name__}(…).slot("second")'
            )
