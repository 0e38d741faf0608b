"""When intents are to be sent, and the word that takes one back before that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import msgspec

from projectionist.core.identifiers import checked
from projectionist.outbox.intents.intent import (
    FARTHEST,
    EmittedIntent,
    Intent,
    IntentOptions,
    Scheduled,
    options_of,
)


class Cancel(msgspec.Struct, frozen=True):
    """Return or yield it to take back what earlier events of the aggregate scheduled: `Cancel(Reminder)`.

    It is about intents of this class in this slot (default: the class's own) of lower versions, and takes back those
    of which no attempt has begun; never one of its own event, so that a `Cancel` beside a new one is a reschedule.
    """

    intent: type[Intent]
    slot: str | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.intent, "__intent__") or isinstance(self.intent, Intent):
            raise TypeError(f"Cancel({self.intent!r}): name the class of the intents, as in Cancel(Reminder)")
        if self.slot is not None:
            checked(self.slot, what="slot")


class EmittedCancel(msgspec.Struct, frozen=True, gc=False):
    """A Cancel that a handler has returned, with the slot it is about."""

    slot: str
    intent: type[Intent]
    scope: str | None = None
    """The key of the row it was returned with, where a handler runs with several: it is about that row's intents."""

    @property
    def counted(self) -> str:
        """Return the name under which it is counted where none is made."""
        return f"Cancel({self.slot})"

    @property
    def body(self) -> bytes:
        """Return no content: what it is about has it."""
        return b""

    @property
    def due(self) -> None:
        """Return no moment: it counts from its event on."""
        return None


Emitted: TypeAlias = EmittedIntent | EmittedCancel


def wish_of(one: Emitted) -> Intent | Scheduled | Cancel:
    """Return what a handler has asked for, with its moment, as a handler would write it; its slot is not told."""
    if isinstance(one, EmittedCancel):
        return Cancel(one.intent, None if one.slot == options_of(one.intent).slot else one.slot)
    return one.intent if one.due is None else Scheduled(one.intent, one.due)


def due_of(scheduled: Scheduled, time: datetime | None) -> datetime:
    """Return the moment at which an intent is to be sent, given its event's own time.

    Raises ValueError where there is none, and for a moment that is ten years away or outside the calendar.
    """
    due = scheduled.due
    if isinstance(due, timedelta):
        if time is None:
            raise ValueError(
                f"{class_of(scheduled)}.after({due}): its event says no time; publish it with one, or use at(…)"
            )
        return _moment(scheduled, time, due)
    if time is not None and due - time > FARTHEST:
        raise ValueError(f"{class_of(scheduled)}.at({due}) is more than ten years after its event")
    return _moment(scheduled, due, timedelta(0))


def _moment(scheduled: Scheduled, begin: datetime, delay: timedelta) -> datetime:
    """Return a moment in UTC; refuse one that cannot be told, or of which it cannot be told when it expires."""
    try:
        moment = begin.astimezone(UTC) + delay
        moment + FARTHEST  # it expires by then
    except OverflowError:
        raise ValueError(
            f"{class_of(scheduled)} is to be sent outside the years 1 to 9989: {begin} and {delay}"
        ) from None
    return moment


def class_of(scheduled: Scheduled) -> str:
    """Return the name of the intent's class, for messages."""
    return type(
        scheduled.intent if isinstance(scheduled.intent, Intent) else scheduled.intent.intent
    ).__name__


def slot_of(cancel: Cancel) -> str:
    """Return the slot that a cancel is about."""
    return cancel.slot or options_of(cancel.intent).slot


def expires_s(options: IntentOptions) -> float | None:
    """Return how many seconds after it was due an intent of a class is not sent any more."""
    return None if options.expires is None else options.expires.total_seconds()
